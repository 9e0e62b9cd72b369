// Metadata of a model that describe its program, in the form of PyTorch's exporter.
#pragma once

#include "writer/writer.h"

namespace onnx_native {

struct ProgramContents;

// Returns options that write the program's metadata. The program must outlive them.
writer::Options metadata_options(const ProgramContents& program, Metadata level);

}  // namespace onnx_native
