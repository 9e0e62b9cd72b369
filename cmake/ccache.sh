#!/bin/sh
# Compiles through ccache: ccache.sh SOURCE_FOLDER COMPILER ARGUMENT...
# Relative paths: clones and build folders share the compiled objects.
export CCACHE_BASEDIR="$1" CCACHE_NOHASHDIR=1
shift
exec ccache "$@"
