// From a torch.export archive to our graph.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "import/pt2/archive.h"
#include "ir/graph.h"

namespace htpipe {

/// Reads a .pt2 file and imports it; see import_archive.
Result<Graph> import_pt2(const std::filesystem::path& path);

namespace pt2 {

/// Builds the graph: channel-first operators, weights borrowed from the archive's mapped file, value names and layer
/// paths as the model has them. Errors: unsupported-op with a note for every operator that has no entry in the table of
/// aten_map.cc (node, module path, source line); unsupported-form at the node; those of the operators' own rules.
Result<Graph> import_archive(const Archive& archive, std::string graph_name);

}  // namespace pt2
}  // namespace htpipe
