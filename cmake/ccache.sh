#!/bin/sh
# Compiles through ccache: ccache.sh SOURCE_FOLDER COMPILER ARGUMENT...
# Relative paths: clones and build folders share the compiled objects.
export CCACHE_BASEDIR="$1" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros  # precompiled headers need it
shift
# ccache preprocesses a header that it precompiles. Beside an old precompiled file, the compiler would read that file
# in place of the changed header, and ccache would answer with the old result. Comments count: a precompiled file knows
# its headers by a checksum, and the compiler reads a header with another one twice.
for argument; do
  case "$argument" in *.gch) rm -f "$argument" && export CCACHE_COMMENTS=1 ;; esac
done
exec ccache "$@"
