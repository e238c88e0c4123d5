// From a torch.export archive to our graph.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/options.h"
#include "import/pt2/archive.h"
#include "ir/graph.h"

namespace htpipe {

/// Reads a .pt2 file and imports it; see import_archive.
Result<Imported> import_pt2(const std::filesystem::path& path, const ImportOptions& options);
Result<Graph> import_pt2(const std::filesystem::path& path);

namespace pt2 {

/// A node of the model that cannot become part of the graph: it would have to run elsewhere.
struct FallbackCandidate {
  std::string node;
  std::string target;  ///< "torch.ops.mylib.foo.default"
  std::string module;
  std::string file;
  int line = 0;
  Code code = Code::kUnsupportedOp;
  std::string reason;
};

/// The sizes that `options` fix, in the form in which an archive is read (ReadOptions::dimensions).
[[nodiscard]] Dimensions dimensions_of(const ImportOptions& options);

/// Builds the graph: channel-first operators, weights borrowed from the archive's mapped file (one constant per weight,
/// however many names it has), value names and layer paths as the model has them. Floats of any width are computed in
/// float32; inputs and outputs of the graph keep the model's types.
/// Inputs named in `options.fix` become constants. Warnings name what was left out.
/// Errors: unsupported-op or unsupported-form with a note for every node that cannot be imported (node, module path,
/// source line, reason); all of them are given to `candidates` too.
Result<Imported> import_archive(const Archive& archive, std::string graph_name, const ImportOptions& options,
                                std::vector<FallbackCandidate>* candidates = nullptr);
Result<Graph> import_archive(const Archive& archive, std::string graph_name);

}  // namespace pt2
}  // namespace htpipe
