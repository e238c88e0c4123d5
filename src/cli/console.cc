#include "cli/console.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/progress.h"
#include "base/version.h"

namespace htpipe::cli {
namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool coloured(const GlobalOptions& options) {
  if (options.no_color || is_set("NO_COLOR")) return false;
  return is_set("FORCE_COLOR") || ::isatty(STDERR_FILENO) != 0;
}

std::string red(std::string_view text, const GlobalOptions& options) {
  return coloured(options) ? fmt::format("\033[1;31m{}\033[0m", text) : std::string(text);
}

/// Writes all of `text` to stdout. A reader that went away (a pager) is no failure worth a message.
int to_stdout(const std::string& text, int exit_code) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return exit_code;
  if (errno != EPIPE) fmt::print(stderr, "failed: stage output: cannot write to stdout: {}\n", std::strerror(errno));
  return exit_code == 0 ? 1 : exit_code;
}

void to_stderr(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

Json document(std::string_view verb, int exit_code) {
  return {{"htpipe", kVersion}, {"command", verb}, {"exit_code", exit_code}};
}

/// The stage that a note names, and the notes without it.
std::string take_stage(Error& error, std::string_view fallback) {
  constexpr std::string_view kMark = "stage ";
  std::string stage(fallback);
  std::vector<std::string> notes;
  for (std::string& note : error.notes) {
    if (note.rfind(kMark, 0) == 0) {
      stage = note.substr(kMark.size());
    } else {
      notes.push_back(std::move(note));
    }
  }
  error.notes = std::move(notes);
  return stage;
}

Json to_json(const Error& error, const std::string& stage) {
  Json place = Json::object();
  if (!error.place.file.empty()) place["file"] = error.place.file;
  if (error.place.line > 0) place["line"] = error.place.line;
  if (!error.place.node.empty()) place["node"] = error.place.node;
  if (!error.place.pass.empty()) place["pass"] = error.place.pass;
  if (!error.place.target.empty()) place["target"] = error.place.target;
  return {{"code", word(error.code)},  {"message", error.message}, {"stage", stage},
          {"place", std::move(place)}, {"notes", error.notes},     {"hint", error.next_step()}};
}

}  // namespace

void set_up_console(const GlobalOptions& options) {
  // The logger decides by the environment alone.
  if (options.no_color) ::setenv("NO_COLOR", "1", 1);
  log::set_level(options.verbose > 1   ? log::Level::kDebug
                 : options.verbose > 0 ? log::Level::kInfo
                 : options.quiet       ? log::Level::kError
                                       : log::Level::kWarn);
  set_progress_mode(options.quiet  ? ProgressMode::kNone
                    : options.json ? ProgressMode::kJsonLines
                                   : ProgressMode::kText);
}

int show(const Answer& answer, const Arguments& arguments) {
  const GlobalOptions& options = arguments.global;
  std::string out = options.quiet ? answer.brief : answer.text;
  if (options.json) {
    if (!options.quiet) to_stderr(answer.text);
    Json json = document(arguments.verb, answer.exit_code);
    json["result"] = *answer.json;
    out = to_text(json);
  }
  const int exit_code = to_stdout(out, answer.exit_code);
  if (!answer.failure.empty()) to_stderr(red("failed:", options) + " " + answer.failure + "\n");
  return exit_code;
}

int exit_code_of(const Error& error) { return info(error.code).exit_code; }

int show(const Error& error, std::string_view verb, const GlobalOptions& options) {
  Error shown = error;
  const std::string stage = take_stage(shown, verb);
  int exit_code = exit_code_of(shown);
  if (options.json) {
    Json json = document(verb, exit_code);
    json["error"] = to_json(shown, stage);
    exit_code = to_stdout(to_text(json), exit_code);
  }
  std::string text;
  for (const std::string& note : shown.notes) text += "  " + note + "\n";
  shown.notes.clear();
  text +=
      fmt::format("{} stage {}: {}; next: {}\n", red("failed:", options), stage, shown.summary(), shown.next_step());
  to_stderr(text);
  return exit_code;
}

}  // namespace htpipe::cli
