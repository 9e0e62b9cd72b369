#!/bin/sh
# Compiles through ccache: ccache.sh SOURCE_FOLDER COMPILER ARGUMENT...
# Relative paths: clones and build folders share the compiled objects.
export CCACHE_BASEDIR="$1" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros  # precompiled headers need it
shift
# ccache preprocesses a header that it precompiles. Beside an old precompiled file, the compiler would read that file
# in place of the changed header, and ccache would answer with the old result.
for argument; do
  case "$argument" in *.gch) rm -f "$argument" ;; esac
done
exec ccache "$@"
