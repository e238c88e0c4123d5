// The only file that knows CLI11.
#include "cli/args.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/version.h"
#include "target/spelling.h"

namespace htpipe::cli {
namespace {

constexpr const char* kDescription =
    "htpipe takes a PyTorch model to a verified artifact for Qualcomm's Hexagon Tensor Processor.";

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0    done\n"
    "  1    the model, the data or a file is at fault\n"
    "  2    the command line or the pipeline file is at fault\n"
    "  3    an accuracy gate failed\n"
    "  4    Qualcomm's libraries are missing or failed\n"
    "  5    check: a target cannot execute the whole model\n"
    "  70   a defect of htpipe\n"
    "  130  interrupted\n"
    "\n"
    "With --json stdout holds exactly one JSON document and text for people goes to stderr.\n"
    "Environment: NO_COLOR, FORCE_COLOR, HTPIPE_THREADS, HTPIPE_DATA_DIR (folder that holds targets/),\n"
    "HTPIPE_VENDOR_DIR (folder of Qualcomm's libraries), HTPIPE_VENDOR_WORKER (the worker program).";

/// Flags that may stand on both sides of the verb: subcommands let them fall through to the program.
void add_global_flags(CLI::App& app, GlobalOptions& global) {
  app.add_flag("-v,--verbose", global.verbose, "Tell what each stage does; twice for debugging");
  app.add_flag("-q,--quiet", global.quiet, "Print only the path of the result, and errors");
  app.add_flag("--json", global.json, "Print one JSON document on stdout");
  app.add_flag("--no-color", global.no_color, "Print no colours");
}

struct Verbs {
  std::vector<std::string> names;
  CLI::App* add(CLI::App& app, const std::string& name, const std::string& description) {
    names.push_back(name);
    CLI::App* verb = app.add_subcommand(name, description);
    verb->fallthrough();
    return verb;
  }
};

/// What every command takes that imports a model; `run` has the rest in its file.
void add_import_options(CLI::App* verb, Arguments& arguments, bool whole = true) {
  const auto add = [verb](const char* flag, std::vector<std::string>& texts, const char* description) {
    verb->add_option(flag, texts, description)->expected(1)->take_all();
  };
  add("--dim", arguments.dims, "NAME=SIZE: size of a named dimension, or of INPUT.AXIS; may be repeated");
  if (!whole) return;
  add("--shape", arguments.shapes, "NAME=1,3,224,224: shape of an input; may be repeated");
  add("--fix", arguments.fixed, "NAME=VALUE or NAME=file.npy: an input that becomes a constant; may be repeated");
}

void add_exec(CLI::App& app, Verbs& verbs, Arguments& arguments) {
  CLI::App* exec = verbs.add(app, "exec",
                             "Execute a model on samples: in float32, float16, the chip's integers, or on "
                             "Qualcomm's emulator");
  exec->add_option("model", arguments.subject, "The model: .pt2, .onnx, .htir, .dlc, or with --engine htp .bin")
      ->required();
  exec->add_option("--engine", arguments.engine,
                   "float, fp16, fixed (the chip's integers, for quantised models) or htp (Qualcomm's emulator)")
      ->check(CLI::IsMember({"float", "fp16", "fixed", "htp"}))
      ->capture_default_str();
  exec->add_option("--inputs", arguments.inputs, "Samples: .npz, .npy, or an input_list.txt of raw files");
  exec->add_option("-t,--target", arguments.targets, "The chip, for fixed and htp")->expected(1);
  exec->add_option("-o,--output", arguments.output, "Folder for outputs.npz, or for Result_N with an input_list.txt");
  exec->add_option("--trace", arguments.trace_values,
                   "Write intermediate values into trace.npz too: all, or those named; may be repeated")
      ->expected(0, 1)
      ->take_all();
  exec->add_option("--compare", arguments.compare,
                   "Compare every value with this engine's instead of writing them: htp (with --engine fixed or fp16)")
      ->check(CLI::IsMember({"htp"}));
  exec->add_flag("--native", arguments.native, "Write stored integers and float16 as they are, not as float32");
  exec->add_flag("--no-optimize", arguments.no_optimize, "Execute a float model as it was imported");
  add_import_options(exec, arguments);
}

void add_check(CLI::App& app, Verbs& verbs, Arguments& arguments) {
  CLI::App* check = verbs.add(app, "check",
                              "Say what a target makes of a model, before anything is calibrated or compiled: "
                              "operators, parts and cuts, memory, advice (docs/feasibility.md)");
  check->add_option("model", arguments.subject, "The model: .pt2, .onnx, .htir or .dlc")->required();
  check->add_option("-t,--target", arguments.targets, "The chip, or several with commas between; may be repeated")
      ->delimiter(',')
      ->required();
  check->add_option("--precision", arguments.precision, "int8, int16 (activations) or fp16")
      ->check(CLI::IsMember({"int8", "int16", "fp16"}))
      ->capture_default_str();
  check->add_flag("--all", arguments.all, "Show every node, not only what the chip does not execute");
  check->add_flag("--no-validator", arguments.no_validator, "Do not ask Qualcomm's validator");
  check->add_option("--csv", arguments.csv,
                    "Write the columns of Qualcomm's architecture checker; of several targets into FILE_TARGET.csv");
  check->add_option("--html", arguments.html, "Write one page with everything");
  check->add_option("-o,--output", arguments.output, "Folder for check.html, and check.json and check.csv per target");
  check->add_option("--apply", arguments.apply,
                    "Make the changes that keep every value (docs/rules.md) and write the model: .onnx or .htir");
  add_import_options(check, arguments);
}

void add_optimize(CLI::App& app, Verbs& verbs, Arguments& arguments) {
  CLI::App* optimize = verbs.add(app, "optimize",
                                 "Run the passes on a model: what each does, where the graph gets to, and which pass "
                                 "is at fault (docs/optimiser.md)");
  optimize->add_option("model", arguments.subject, "The model: .pt2, .onnx or .htir");
  optimize->add_option("-o,--output", arguments.output,
                       "Write the graph: .htir (large constants by digest), or .onnx, which has its own order");
  optimize->add_option("--order", arguments.order, "The order of passes, as --print-order writes it");
  optimize->add_flag("--print-order", arguments.print_order, "Print the order of passes instead");
  optimize->add_flag("--list", arguments.list, "Print the passes and what each does instead");
  optimize->add_option("--stop-after", arguments.stop_after, "Stop behind the first run of this pass");
  optimize->add_option("--skip", arguments.skipped, "Passes to leave out, with commas between; may be repeated")
      ->expected(1)
      ->take_all()
      ->delimiter(',');
  optimize->add_option("--dump", arguments.dump, "Folder for the graph after every run that changed it");
  optimize->add_flag("--verify", arguments.verify, "Execute the graph after every pass and compare");
  optimize->add_flag("--bisect", arguments.bisect, "Search for the first run of a pass that changes the outputs");
  optimize->add_option("--inputs", arguments.inputs,
                       "With --verify and --bisect: samples, .npz, .npy or an input_list.txt; else made up");
  optimize->add_option("--reference", arguments.reference,
                       "With --inputs: their outputs (.npz, .npy); else those of the imported graph");
  optimize
      ->add_option("--tolerance", arguments.tolerance,
                   "With --verify and --bisect: largest difference from the reference, relative to the largest "
                   "value of the output where that is above 1; else 1e-4")
      ->check(CLI::NonNegativeNumber);
  optimize->add_option("--opset", arguments.opset, "Version of ONNX's operators: 13 to 21")
      ->check(CLI::Range(13, 21))
      ->capture_default_str();
  add_import_options(optimize, arguments);
}

void add_verbs(CLI::App& app, Verbs& verbs, Arguments& arguments) {
  CLI::App* run = verbs.add(app, "run", "Run the pipeline: import, optimise, quantise, compile, verify, register");
  run->add_option("pipeline", arguments.subject, "The pipeline file (docs/pipeline-file.md)")->required();
  run->add_option("-t,--target", arguments.targets, "Build for this target only; may be repeated")
      ->expected(1)
      ->take_all();
  run->add_option("-o,--output", arguments.output, "Output folder instead of the pipeline file's");
  add_import_options(run, arguments, false);
  run->add_flag("--dry-run", arguments.dry_run, "Check everything and show the plan, write nothing");
  run->add_flag("--force", arguments.force, "Do every stage again instead of using cached results");

  CLI::App* info = verbs.add(app, "info", "Show what a file holds: .pt2, .dlc, .bin (context binary) or .htir");
  info->add_option("file", arguments.subject, "The file")->required();
  info->add_flag("--graph", arguments.graph, "Print the graph's text form instead (.pt2, .htir)");
  info->add_flag("--dependencies", arguments.dependencies,
                 "Print the dependency graph of the layers in Graphviz form instead (.pt2, .htir)");
  info->add_option("-t,--target", arguments.targets, "Say which nodes this target executes; may be repeated")
      ->expected(1)
      ->take_all();
  info->add_option("--precision", arguments.precision, "With -t: int8, int16 (activations) or fp16")
      ->check(CLI::IsMember({"int8", "int16", "fp16"}))
      ->capture_default_str();

  add_import_options(info, arguments);

  CLI::App* convert = verbs.add(app, "convert", "Write a model as ONNX, checked and compared with its source");
  convert->add_option("model", arguments.subject, "The model: .pt2, .onnx or .htir")->required();
  convert->add_option("-o,--output", arguments.output, "The .onnx file to write")->required();
  convert->add_option("--opset", arguments.opset, "Version of ONNX's operators: 13 to 21")
      ->check(CLI::Range(13, 21))
      ->capture_default_str();
  convert->add_flag("--external-data", arguments.external_data,
                    "Weights in a file beside it (always when they are more than 1.9 GB)");
  convert->add_flag("--no-verify", arguments.no_verify, "Neither check nor compare it; needs no Python");
  add_import_options(convert, arguments);

  add_exec(app, verbs, arguments);
  add_check(app, verbs, arguments);
  add_optimize(app, verbs, arguments);

  CLI::App* explain = verbs.add(app, "explain",
                                "Say what an error means and what to do: a word of htpipe's, a number "
                                "or name of QNN or Genie");
  explain->add_option("code", arguments.subject, "For instance gate-task, 6005 or QNN_GRAPH_ERROR_INVALID_OP_CONFIG")
      ->required();

  verbs.add(app, "doctor", "Say what is installed, which targets can be built for, and what is missing");
  verbs.add(app, "targets", "List the targets and every name that they are known by");
  verbs.add(app, "version", "Print the version");
}

/// Moves a negative number ("explain -5") behind "--", so that it is no flag.
std::vector<std::string> with_negative_numbers_last(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  std::vector<std::string> numbers;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool number = argument.size() > 1 && argument.front() == '-' &&
                        argument.find_first_not_of("0123456789", 1) == std::string_view::npos;
    (number ? numbers : arguments).emplace_back(argument);
  }
  if (!numbers.empty()) arguments.emplace_back("--");
  arguments.insert(arguments.end(), numbers.begin(), numbers.end());
  // CLI11 takes the arguments from the back.
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

/// The first argument that is no flag, if it is no verb.
std::string unknown_verb(int argc, const char* const* argv, const std::vector<std::string>& verbs) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.empty() || argument.front() == '-') continue;
    const bool known = std::find(verbs.begin(), verbs.end(), argument) != verbs.end();
    return known ? std::string() : std::string(argument);
  }
  return {};
}

/// Every "--flag" that the verb (or the program) takes.
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    }
  }
  return flags;
}

Error usage_error(const CLI::ParseError& error, const CLI::App& app, int argc, const char* const* argv,
                  const std::vector<std::string>& verbs) {
  const std::string stranger = unknown_verb(argc, argv, verbs);
  if (!stranger.empty()) {
    const std::string hint = did_you_mean(stranger, verbs);
    return Error(Code::kUsage,
                 fmt::format("no command \"{}\"; there are {}", stranger.substr(0, 80), fmt::join(verbs, ", ")))
        .with_hint(hint.empty() ? "htpipe --help shows what each does." : hint);
  }
  if (app.get_subcommands().empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return Error(Code::kUsage, fmt::format("no command given; there are {}", fmt::join(verbs, ", ")))
        .with_hint("htpipe --help shows what each does.");
  }
  const CLI::App* verb = &app;
  for (const CLI::App* used : app.get_subcommands()) verb = used;
  const std::string help = fmt::format("htpipe{}{} --help shows what can be given.", verb == &app ? "" : " ",
                                       verb == &app ? std::string() : verb->get_name());
  std::vector<std::string> unread = verb->remaining(true);
  if (verb != &app) {
    for (const std::string& more : app.remaining(false)) unread.push_back(more);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unread.empty()) {
    const std::string& first = unread.front();
    if (first.front() != '-') {
      return Error(Code::kUsage, fmt::format("\"{}\" is one argument too many", first)).with_hint(help);
    }
    const std::string hint = did_you_mean(first.substr(0, first.find('=')), flags_of(*verb));
    return Error(Code::kUsage, fmt::format("no flag {}", first)).with_hint(hint.empty() ? help : hint);
  }
  return Error(Code::kUsage, error.what()).with_hint(help);
}

}  // namespace

Result<std::variant<Arguments, HelpText>> parse_arguments(int argc, const char* const* argv) {
  Arguments arguments;
  CLI::App app(kDescription, "htpipe");
  app.footer(kExitCodes);
  app.set_version_flag("--version", fmt::format("htpipe {}", kVersion));
  app.set_help_all_flag("--help-all", "Print the help of every command");
  app.require_subcommand(1);
  add_global_flags(app, arguments.global);
  Verbs verbs;
  add_verbs(app, verbs, arguments);
  try {
    app.parse(with_negative_numbers_last(argc, argv));
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::CallForAllHelp&) {
    return HelpText{app.help("", CLI::AppFormatMode::All)};
  } catch (const CLI::CallForVersion&) {
    return HelpText{fmt::format("htpipe {}\n", kVersion)};
  } catch (const CLI::ParseError& error) {
    return fail(usage_error(error, app, argc, argv, verbs.names));
  }
  arguments.verb = app.get_subcommands().front()->get_name();
  if (arguments.verb == "exec") {
    arguments.trace = app.get_subcommand("exec")->count("--trace") > 0;
    // What stands for a --trace without a value.
    auto& values = arguments.trace_values;
    values.erase(std::remove_if(values.begin(), values.end(),
                                [](const std::string& value) { return value.empty() || value == "true"; }),
                 values.end());
  }
  if (arguments.global.quiet && arguments.global.verbose > 0) {
    return fail(Error(Code::kUsage, "--quiet and --verbose contradict each other").with_hint("Give one of them."));
  }
  return arguments;
}

GlobalOptions scan_global_options(int argc, const char* const* argv) {
  GlobalOptions global;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") break;
    if (argument == "--json") global.json = true;
    if (argument == "--no-color") global.no_color = true;
    if (argument == "-q" || argument == "--quiet") global.quiet = true;
  }
  return global;
}

}  // namespace htpipe::cli
