#include "pipeline/python_bridge.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/hash.h"
#include "base/io.h"
#include "base/version.h"
#include "pipeline/python_process.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;

/// The folder of the running program.
fs::path program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

/// The folder that holds the package htpipe, beside the program; empty when Python has to find it itself.
fs::path package_folder() {
  std::error_code ignored;
  for (const char* relative : {"../python", "../lib/htpipe/python"}) {
    fs::path folder = program_folder() / relative;
    if (fs::exists(folder / "htpipe/_child.py", ignored)) return folder.lexically_normal();
  }
  return {};
}

Error error_of(const Json& json) {
  const std::string code = json.at("code").get<std::string>();
  const CodeInfo* row = find_code(code);
  Error error(row == nullptr ? Code::kPythonFailed : row->code, json.at("message").get<std::string>());
  const Json& place = json.at("place");
  error.place.file = place.at("file").get<std::string>();
  error.place.line = place.at("line").get<int>();
  error.place.node = place.at("node").get<std::string>();
  error.place.pass = place.at("pass").get<std::string>();
  error.place.target = place.at("target").get<std::string>();
  error.notes = json.at("notes").get<std::vector<std::string>>();
  error.hint = json.at("hint").get<std::string>();
  return error;
}

/// What a process that gave no answer left.
Error without_answer(const PythonEnd& end, const fs::path& interpreter) {
  // The last line of a traceback is its reason.
  const std::string last =
      end.output.substr(end.output.rfind('\n') == std::string::npos ? 0 : end.output.rfind('\n') + 1);
  if (last.find("No module named") != std::string::npos || last.find("ImportError") != std::string::npos) {
    return Error(Code::kPythonMissing, fmt::format("{} cannot import htpipe: {}", interpreter.string(), last))
        .with_hint(
            "Build it (./dev build) or install its wheel for this interpreter; HTPIPE_PYTHON names another one.");
  }
  Error error(Code::kPythonFailed, fmt::format("the Python process {}", end.how));
  if (!end.output.empty()) error.notes.push_back("it printed: " + end.output);
  return error;
}

/// Whether all files that an export was made of are as they were.
bool is_fresh(const fs::path& manifest) {
  const auto json = read_json(manifest);
  if (!json || !json->is_object() || !json->contains("files")) return false;
  for (const auto& [name, sha] : json->at("files").items()) {
    const auto now = sha256_file(name);
    if (!now || Json(*now) != sha) return false;
  }
  return true;
}

Result<PythonModel> model_in(const fs::path& folder) {
  HTPIPE_TRY(const Json result, read_json(folder / "export.json"));
  PythonModel model;
  model.pt2 = folder / "model.pt2";
  for (const char* key : {"notes", "findings"}) {
    for (const Json& text : result.at(key)) model.warnings.push_back(text.get<std::string>());
  }
  return model;
}

}  // namespace

fs::path python_interpreter() {
  const char* chosen = std::getenv("HTPIPE_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ignored;
  const fs::path venv = program_folder() / "../../.venv/bin/python";
  return fs::exists(venv, ignored) ? venv.lexically_normal() : fs::path("python3");
}

Result<Json> run_python(const std::string& command, Json request, const PythonOptions& options) {
  HTPIPE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const fs::path response_file = folder.path() / "response.json";
  request["response"] = response_file.string();
  HTPIPE_CHECK_OK(write_json(folder.path() / "request.json", request));
  PythonStart start;
  start.interpreter = python_interpreter();
  start.arguments = {"-m", "htpipe._child", command};
  start.python_path = package_folder();
  start.input = folder.path() / "request.json";
  start.output = folder.path() / "output.txt";
  HTPIPE_TRY(const PythonEnd end, run_process(start, options.timeout_s, options.cancelled));
  std::error_code ignored;
  if (!fs::exists(response_file, ignored)) return fail(without_answer(end, start.interpreter));
  HTPIPE_TRY(const Json response, read_json(response_file));
  try {
    if (!response.at("ok").get<bool>()) return fail(error_of(response.at("error")));
    return response.at("result");
  } catch (const Json::exception& error) {
    return fail(Code::kPythonFailed, fmt::format("htpipe._child gave an answer of another version: {}", error.what()));
  }
}

Result<PythonModel> export_python(const PythonSource& source, const fs::path& folder, const PythonOptions& options) {
  Json inputs = Json::array();
  for (const auto& [name, type] : source.inputs) inputs.push_back({name, type});
  const Json request = {{"source", source.factory},
                        {"folder", fs::absolute(source.folder).lexically_normal().string()},
                        {"inputs", std::move(inputs)},
                        {"output", fs::absolute(folder / "model.pt2").string()}};
  PythonOptions limited = options;
  limited.timeout_s = source.timeout_s;
  HTPIPE_TRY(const Json result, run_python("export", request, limited));
  HTPIPE_CHECK_OK(write_json(folder / "export.json", result));
  return model_in(folder);
}

Result<PythonModel> export_python(const PythonSource& source, Cache& cache, const PythonOptions& options) {
  std::string key = fmt::format("{}\n{}\n{}\n{}\n", kVersion, python_interpreter().string(), source.factory,
                                fs::absolute(source.folder).lexically_normal().string());
  for (const auto& [name, type] : source.inputs) key += fmt::format("{}: {}\n", name, type);
  const std::string digest = sha256_hex(as_bytes(key));
  const auto build = [&](const fs::path& folder) -> Status {
    HTPIPE_CHECK_OK(export_python(source, folder, options));
    return {};
  };
  HTPIPE_TRY(fs::path folder, cache.files("export", digest, build));
  if (cache.last_was_cached() && !is_fresh(folder / "export.json")) {
    cache.drop("export", digest);
    HTPIPE_TRY(folder, cache.files("export", digest, build));
  }
  return model_in(folder);
}

Result<OnnxReport> verify_onnx(const OnnxVerification& verification, const PythonOptions& options) {
  Json request = {{"exported", fs::absolute(verification.exported).string()},
                  {"seed", verification.seed},
                  {"samples", verification.samples}};
  if (!verification.source.empty()) request["source"] = fs::absolute(verification.source).string();
  for (const auto& [name, range] : verification.ranges) request["ranges"][name] = {range.first, range.second};
  HTPIPE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  int count = 0;
  for (const auto& [name, tensor] : verification.fixed) {
    const fs::path file = folder.path() / fmt::format("fixed_{}.npy", count++);
    HTPIPE_CHECK_OK(write_npy(file, tensor));
    request["fixed"][name] = file.string();
  }
  HTPIPE_TRY(const Json result, run_python("verify-onnx", std::move(request), options));
  try {
    OnnxReport report;
    for (const Json& row : result.at("outputs")) {
      report.outputs.push_back({row.at("name").get<std::string>(), row.at("source_name").get<std::string>(),
                                row.at("max_abs").get<double>(), row.at("range").get<double>()});
    }
    report.onnx_version = result.at("onnx").get<std::string>();
    report.runtime_version = result.at("onnxruntime").get<std::string>();
    return report;
  } catch (const Json::exception& error) {
    return fail(Code::kPythonFailed, fmt::format("htpipe._child gave an answer of another version: {}", error.what()));
  }
}

}  // namespace htpipe
