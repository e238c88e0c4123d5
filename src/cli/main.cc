// The program: reads the command line, runs one command, shows its answer.
// Invariant: every way out has an exit code of the table in --help; no exception leaves main.
#include <fmt/core.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/interrupt.h"
#include "cli/answer.h"
#include "cli/args.h"
#include "cli/console.h"
#include "ops/registry.h"

namespace htpipe::cli {
namespace {

using Command = Result<Answer> (*)(const Arguments&);

constexpr std::pair<std::string_view, Command> kCommands[] = {
    {"run", run},         {"info", info},         {"check", check},   {"convert", convert}, {"exec", exec},
    {"explain", explain}, {"optimize", optimize}, {"doctor", doctor}, {"targets", targets}, {"version", version},
};

Result<Answer> dispatch(const Arguments& arguments) {
  for (const auto& [verb, command] : kCommands) {
    if (verb == arguments.verb) return command(arguments);
  }
  throw_bug(__FILE__, __LINE__, "verb in kCommands", arguments.verb);
}

int guarded(int argc, const char* const* argv) {
  GlobalOptions options = scan_global_options(argc, argv);
  std::string verb = "command-line";
  try {
    set_up_console(options);
    auto parsed = parse_arguments(argc, argv);
    if (!parsed) return show(parsed.error(), verb, options);
    if (const auto* help = std::get_if<HelpText>(&*parsed)) {
      fmt::print("{}", help->text);
      return 0;
    }
    const Arguments& arguments = std::get<Arguments>(*parsed);
    options = arguments.global;
    verb = arguments.verb;
    set_up_console(options);
    register_all_ops();
    const Result<Answer> answer = dispatch(arguments);
    return answer ? show(*answer, arguments) : show(answer.error(), verb, options);
  } catch (const BugError& bug) {
    return show(Error(Code::kBug, bug.what()), verb, options);
  } catch (const std::bad_alloc&) {
    return show(Error(Code::kOutOfMemory, "an allocation failed"), verb, options);
  } catch (const std::exception& error) {
    return show(Error(Code::kBug, fmt::format("unexpected exception: {}", error.what())), verb, options);
  }
}

void ignore(int /*number*/) {}

}  // namespace
}  // namespace htpipe::cli

int main(int argc, char** argv) {
  htpipe::install_interrupt_handlers();
  // A reader of stdout that goes away is seen as a failed write. A handler, unlike SIG_IGN, is not inherited by the
  // processes that are started.
  std::signal(SIGPIPE, htpipe::cli::ignore);
  return htpipe::cli::guarded(argc, argv);
}
