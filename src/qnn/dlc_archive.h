// The zip archive around a DLC: made reproducible, and our own entry in it.
// Invariant: the model's own entries are copied byte for byte; only the writer's notes of time and place change.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"
#include "base/result.h"

namespace htpipe::qnn {

inline constexpr const char* kProvenanceEntry = "htpipe.provenance.json";

/// The archive `file` with stored entries in the same order, fixed times, and without time stamps and paths in its
/// metadata; `provenance` (if not empty) becomes a further entry. Same entries, same bytes. Errors: dlc-invalid.
Result<std::string> normalise_dlc(const std::shared_ptr<const MappedFile>& file, std::string_view provenance);

/// Names of the entries in file order, and the text of our own entry (empty when there is none).
struct DlcEntries {
  std::vector<std::string> names;
  std::string provenance;
};
/// Compares the CRC of every entry that has one (the vendor's writer leaves them out, we do not).
/// Errors: dlc-invalid.
Result<DlcEntries> list_dlc(const std::shared_ptr<const MappedFile>& file);

}  // namespace htpipe::qnn
