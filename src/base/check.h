// Assertions about ourselves. User input never ends here.
#pragma once

#include <stdexcept>
#include <string>

namespace htpipe {

/// Thrown by HTPIPE_CHECK only: a defect of the program. Caught in main and in the Python binding.
class BugError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_bug(const char* file, int line, const char* condition, const std::string& message);

}  // namespace htpipe

#define HTPIPE_CHECK(condition, message)                                              \
  do {                                                                                \
    if (!(condition)) ::htpipe::throw_bug(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
