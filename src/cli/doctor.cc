// htpipe doctor: what is installed here, which targets can be built for, and what to do about what is missing.
// Invariant: it never fails for something that is missing; that is what it is there to tell.
#include <fmt/core.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "base/version.h"
#include "cli/answer.h"
#include "cli/table.h"
#include "kernels/isa.h"
#include "qnn/install.h"
#include "qnn/vendor.h"
#include "target/target.h"

namespace htpipe::cli {
namespace {

namespace fs = std::filesystem;

struct Dataset {
  const char* name;
  const char* folder;
  const char* package;
  std::vector<const char*> files;
};

const std::vector<Dataset>& known_datasets() {
  static const std::vector<Dataset> datasets = {
      {"fashion-mnist",
       "/usr/share/datasets/fashion-mnist",
       "dataset-fashion-mnist",
       {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz"}},
  };
  return datasets;
}

/// Collects the report, section by section.
class Examination {
 public:
  Answer take() {
    if (problems_.empty()) {
      answer_.text += "\nNothing is missing.\n";
    } else {
      answer_.text += "\nMissing:\n";
      for (const Json& problem : problems_) {
        answer_.text += fmt::format("  {}\n    next: {}\n", problem.at("message").get<std::string>(),
                                    problem.at("next").get<std::string>());
      }
    }
    (*answer_.json)["problems"] = std::move(problems_);
    return std::move(answer_);
  }

  void program() {
    const int threads = thread_count();
    (*answer_.json)["version"] = kVersion;
    (*answer_.json)["isa"] = kernels::isa_name();
    (*answer_.json)["threads"] = threads;
    answer_.text += fmt::format("htpipe {}: {} kernels, {} threads\n", kVersion, kernels::isa_name(), threads);
  }

  void vendor() {
    const qnn::VendorInstall install = qnn::find_install();
    Json json = {{"folder", install.folder.string()},
                 {"wheel_version", install.wheel_version},
                 {"supported_wheel_version", qnn::kSupportedWheel},
                 {"supported_build_id", qnn::kSupportedBuildId},
                 {"missing", install.missing}};
    answer_.text += "\nQualcomm's libraries\n";
    if (install.folder.empty()) {
      answer_.text += fmt::format("  not found; looked in {}\n", fmt::join(install.searched, ", "));
    } else {
      answer_.text += fmt::format(
          "  folder: {}\n  wheel: onnxruntime-qnn {} (supported: {})\n", install.folder.string(),
          install.wheel_version.empty() ? "of unknown version" : install.wheel_version, qnn::kSupportedWheel);
    }
    worker(json);
    const auto versions = ask_versions();
    if (versions) {
      can_compile_ = true;
      list_libraries(*versions, json);
    } else {
      problem(versions.error());
    }
    json["works"] = can_compile_;
    (*answer_.json)["vendor"] = std::move(json);
  }

  void targets() {
    answer_.text += "\nTargets\n";
    const auto known = load_targets();
    Json list = Json::array();
    if (!known) {
      problem(known.error());
      answer_.text += "  none found\n";
    } else {
      Table table({"target", "chip", "htp", "can be compiled", "fp16", "vtcm>"});
      for (const Target& target : *known) {
        table.add({target.id, target.soc, target.arch(), can_compile_ ? "yes" : "no",
                   target.supports_fp16 ? "yes" : "no", fmt::format("{} MB", target.vtcm_mb)});
        list.push_back({{"id", target.id},
                        {"soc", target.soc},
                        {"htp_version", target.htp_version},
                        {"can_compile", can_compile_}});
      }
      answer_.text += table.text("  ");
    }
    (*answer_.json)["targets"] = std::move(list);
  }

  void datasets() {
    answer_.text += "\nData sets\n";
    Json list = Json::array();
    for (const Dataset& dataset : known_datasets()) {
      bool complete = true;
      for (const char* file : dataset.files) {
        std::error_code ignored;
        complete = complete && fs::is_regular_file(fs::path(dataset.folder) / file, ignored);
      }
      answer_.text += fmt::format("  {}: {}\n", dataset.name, complete ? dataset.folder : "not found");
      list.push_back({{"name", dataset.name}, {"folder", dataset.folder}, {"found", complete}});
      if (!complete) {
        problem(fmt::format("the data set {} is not in {}", dataset.name, dataset.folder),
                fmt::format("Install the package {} (./dev setup does).", dataset.package));
      }
    }
    (*answer_.json)["datasets"] = std::move(list);
  }

 private:
  void problem(std::string message, std::string next) {
    problems_.push_back({{"message", std::move(message)}, {"next", std::move(next)}});
  }
  void problem(const Error& error) { problem(error.summary(), error.next_step()); }

  void worker(Json& json) {
    const auto found = qnn::find_worker();
    json["worker"] = found ? Json(found->string()) : Json(nullptr);
    answer_.text += fmt::format("  worker: {}\n", found ? found->string() : "not found");
    if (!found) problem(found.error());
  }

  static Result<qnn::Versions> ask_versions() {
    HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find());
    return vendor.versions();
  }

  void list_libraries(const qnn::Versions& versions, Json& json) {
    Table table({"library", "provider", "core API", "backend API", "build"});
    Json list = Json::array();
    for (const qnn::LibraryVersion& library : versions.libraries) {
      table.add({library.library, library.provider, library.core_api, library.backend_api, library.build_id});
      list.push_back({{"library", library.library},
                      {"provider", library.provider},
                      {"core_api", library.core_api},
                      {"backend_api", library.backend_api},
                      {"build_id", library.build_id}});
    }
    json["build_id"] = versions.build_id;
    json["libraries"] = std::move(list);
    answer_.text += table.text("  ");
  }

  Answer answer_;
  Json problems_ = Json::array();
  bool can_compile_ = false;
};

}  // namespace

Result<Answer> doctor(const Arguments& /*arguments*/) {
  Examination examination;
  examination.program();
  examination.vendor();
  examination.targets();
  examination.datasets();
  return examination.take();
}

}  // namespace htpipe::cli
