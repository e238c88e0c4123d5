#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace htpipe::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kTrace:
      return spdlog::level::trace;
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    if (std::getenv("NO_COLOR") != nullptr) sink->set_color_mode(spdlog::color_mode::never);
    auto created = std::make_shared<spdlog::logger>("htpipe", sink);
    created->set_pattern("%^%l%$: %v");
    created->set_level(spdlog::level::warn);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }
bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }
void write(Level level, std::string_view room, std::string_view message) {
  logger().log(to_spdlog(level), "{}: {}", room, message);
}

}  // namespace htpipe::log
