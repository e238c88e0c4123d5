// What the vendor's libraries answered, as plain data.
// Invariant: every number here was reported by the vendor or measured by the worker, never assumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "qnn/graph_spec.h"
#include "tensor/tensor.h"

namespace htpipe::qnn {

/// Wall time of one stage of a vendor job.
struct StageTime {
  std::string stage;  ///< "load", "device", "compose", "finalize", "serialize", "execute" …
  double ms = 0;
};

/// A vendor library and what it says of itself.
struct LibraryVersion {
  std::string library;   ///< file name
  std::string provider;  ///< for instance "HTP_QTI_AISW"
  std::uint32_t backend_id = 0;
  std::string core_api;     ///< "2.40.0"; for libQnnSystem.so the system API version
  std::string backend_api;  ///< "5.51.0"; empty for libQnnSystem.so
  std::string build_id;     ///< "v2.51.0.260929181845"; empty when the library does not tell
};

struct Versions {
  std::filesystem::path folder;
  std::string wheel_version;
  std::string build_id;  ///< of libQnnHtp.so, which decides whether the release is supported
  std::vector<LibraryVersion> libraries;
};

/// What the vendor's validator says of one operator.
struct OpVerdict {
  enum class Kind : std::uint8_t {
    kSupported,
    kRefused,  ///< the validator returned an error: `code` and `reason`
    kCrashed,  ///< the validator crashed its process: `reason` names the signal. Not the same as unsupported.
  };
  std::string op;    ///< name of the operator in the graph
  std::string type;  ///< QNN operator type
  Kind kind = Kind::kSupported;
  std::uint32_t code = 0;
  std::string reason;  ///< first error line of the vendor's log; empty when it gave none
};

/// A written artifact.
struct CompileReport {
  std::filesystem::path path;
  std::uint64_t size_bytes = 0;
  std::string sha256;
  std::vector<StageTime> stages;
  std::vector<std::string> log;  ///< error and warning lines of the vendor that are not known to be harmless
};

/// An input or output of a compiled graph.
struct GraphTensorInfo {
  std::string name;
  TensorType type;
};

/// A graph in a context binary. Sizes are what the vendor's compiler planned for the chip.
struct ContextGraphInfo {
  std::string name;
  std::vector<GraphTensorInfo> inputs;
  std::vector<GraphTensorInfo> outputs;
  std::uint64_t spill_fill_bytes = 0;
  std::uint64_t vtcm_bytes = 0;
  std::uint32_t optimization_level = 0;  ///< 0 = the compiler's own default
  bool dlbc = false;
  std::uint64_t hvx_threads = 0;  ///< 0 = default
  std::uint64_t io_bytes = 0;
  std::uint64_t op_data_bytes = 0;
  std::uint64_t const_bytes = 0;
  std::uint64_t ddr_tensor_bytes = 0;
  std::uint64_t shared_weights_bytes = 0;
};

/// What QnnSystem reads back from a context binary.
struct ContextInfo {
  std::uint32_t soc_model = 0;
  std::uint32_t dsp_arch = 0;  ///< 75 for v75
  std::string build_id;
  std::string core_api;
  std::string backend_api;
  std::string blob_version;
  std::uint64_t blob_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::vector<ContextGraphInfo> graphs;
};

/// What QnnSystem reads back from a DLC: the graphs as the vendor's reader composes them, weights included.
struct DlcInfo {
  std::vector<GraphSpec> graphs;
  std::vector<std::string> entries;  ///< names in the archive, in file order
  std::string provenance;            ///< text of htpipe.provenance.json; empty when there is none
  std::vector<std::string> notes;    ///< what could not be represented, for instance a block-wise encoding
};

struct ExecuteReport {
  /// Output name → all samples in the native data type, first dimension = samples × the graph's first dimension, with
  /// the encoding of the graph's tensor. With expose_natives also every intermediate tensor.
  std::map<std::string, Tensor> outputs;
  std::int64_t samples = 0;
  std::vector<StageTime> stages;
  std::vector<std::string> log;
};

}  // namespace htpipe::qnn
