// The one place that knows our version.
#pragma once

namespace htpipe {

/// Version of htpipe and of the pipeline that is recorded with every artifact.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace htpipe
