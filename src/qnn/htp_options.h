// Options of the HTP graph compiler as the structs of its interface.
// Invariant: an option that htpipe does not know is an error, because the library accepts any number in silence.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/result.h"
#include "qnn/abi.h"
#include "qnn/vendor.h"

namespace htpipe::qnn {

/// A null-terminated configuration list with its memory. Stays where it was made.
class HtpGraphConfigs {
 public:
  /// Errors: usage for an unknown option or a value outside its range.
  static Result<std::unique_ptr<HtpGraphConfigs>> make(const ContextOptions& options);
  [[nodiscard]] const abi::Config** list() { return pointers_.data(); }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(pointers_.size() - 1); }

 private:
  void add(const abi::HtpGraphConfig& config);
  std::deque<abi::HtpGraphConfig> custom_;
  std::deque<abi::Config> configs_;
  std::vector<const abi::Config*> pointers_ = {nullptr};
};

}  // namespace htpipe::qnn
