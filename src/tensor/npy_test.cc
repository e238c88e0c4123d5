// The oracle is NumPy: files that it wrote are checked in, and where a Python with NumPy is installed it reads ours.
#include "tensor/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/hash.h"
#include "base/zip_fixture.h"

namespace htpipe {
namespace {

const std::filesystem::path kSource = HTPIPE_SOURCE_DIR;

std::string npy(std::string_view header, std::string_view data, char major = 1) {
  std::string text = "\x93NUMPY";
  text += major;
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  if (major > 1) text += std::string(2, '\0');
  return text.append(header).append(data);
}

std::string error_word(const std::string& text) {
  const auto tensor = read_npy(as_bytes(text), nullptr);
  return tensor ? "success" : std::string(word(tensor.error().code));
}

const Tensor& named(const std::vector<NamedTensor>& tensors, std::string_view name) {
  for (const NamedTensor& candidate : tensors) {
    if (candidate.name == name) return candidate.tensor;
  }
  ADD_FAILURE() << "no array " << name;
  return tensors.front().tensor;
}

TEST(Npy, ReadsWhatNumPyWrote) {
  const auto tensors = read_npz(kSource / "examples/fashion_resnet/reference.npz");
  ASSERT_TRUE(tensors) << tensors.error().summary();
  ASSERT_EQ(tensors->size(), 4U);
  const Tensor& logits = named(*tensors, "logits");
  EXPECT_EQ(to_string(logits.type()), "f32[100,10]");
  for (const float value : logits.data<float>()) ASSERT_TRUE(std::isfinite(value));
  const Tensor& predictions = named(*tensors, "predictions");
  EXPECT_EQ(to_string(predictions.type()), "u8[10000]");
  // The two arrays agree with each other only when both are read right.
  for (std::size_t image = 0; image < 100; ++image) {
    const auto row = logits.data<float>().subspan(10 * image, 10);
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), predictions.data<std::uint8_t>()[image]);
  }
  const Tensor& top1 = named(*tensors, "torch_top1");
  EXPECT_EQ(to_string(top1.type()), "f64[]");
  EXPECT_GT(top1.real(0), 0.5);
  const auto digest = named(*tensors, "model_sha256").data<char>();
  const auto expected = sha256_file(kSource / "examples/fashion_resnet/fashion_resnet.pt2");
  ASSERT_TRUE(expected);
  EXPECT_EQ(std::string(digest.begin(), digest.end()), *expected) << "run train.py --reference-only";
}

std::vector<NamedTensor> samples() {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kI64, DType::kI32, DType::kI16, DType::kI8,
                            DType::kU32, DType::kU16, DType::kU8, DType::kBool}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 4}, Shape{0, 7}, Shape{123456}}) {
      Tensor tensor(TensorType{dtype, shape, std::nullopt});
      auto bytes = tensor.mutable_data<std::uint8_t>();
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(dtype == DType::kBool ? i % 3 == 0 : i % 61);
      }
      std::string name(name_of(dtype));
      for (const std::int64_t dimension : shape) name += "_" + std::to_string(dimension);
      tensors.push_back({name, tensor});
    }
  }
  return tensors;
}

TEST(Npy, RoundTripsEveryType) {
  const auto tensors = samples();
  const auto archive = to_npz(tensors);
  ASSERT_TRUE(archive) << archive.error().summary();
  EXPECT_EQ(*to_npz(tensors), *archive);
  const auto again = read_npz(as_bytes(*archive), nullptr, "made.npz");
  ASSERT_TRUE(again) << again.error().summary();
  ASSERT_EQ(again->size(), tensors.size());
  for (const NamedTensor& member : tensors) {
    const Tensor& read = named(*again, member.name);
    EXPECT_EQ(read.type(), member.tensor.type());
    EXPECT_TRUE(std::equal(read.bytes().begin(), read.bytes().end(), member.tensor.bytes().begin())) << member.name;
    const auto alone = to_npy(member.tensor);
    const auto alone_again = read_npy(as_bytes(*alone), nullptr);
    ASSERT_TRUE(alone_again) << alone_again.error().summary();
    EXPECT_EQ(alone_again->type(), member.tensor.type());
  }
}

TEST(Npy, NumPyReadsOursAndWritesTheSameBytes) {
  const auto python = kSource / ".venv/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no Python with NumPy";
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_npz(folder->path() / "ours.npz", samples()));
  for (const NamedTensor& member : samples()) {
    ASSERT_TRUE(write_npy(folder->path() / (member.name + ".npy"), member.tensor));
  }
  std::ofstream(folder->path() / "compare.py") << R"(
import io, sys, zipfile
from pathlib import Path
import numpy as np
folder = Path(sys.argv[1])
names = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u32": "u4",
         "u16": "u2", "u8": "u1", "bool": "b1"}
assert zipfile.ZipFile(folder / "ours.npz").testzip() is None
archive = np.load(folder / "ours.npz")
assert len(archive.files) == 55
for name in archive.files:
    dtype, *shape = name.split("_")
    array = archive[name]
    assert array.dtype == names[dtype] and array.shape == tuple(map(int, shape)), name
    raw = np.frombuffer(array.tobytes(), np.uint8)
    index = np.arange(raw.size)
    assert (raw == (index % 3 == 0 if dtype == "bool" else index % 61)).all(), name
    saved = io.BytesIO()
    np.save(saved, array)
    assert saved.getvalue() == (folder / f"{name}.npy").read_bytes(), name
)";
  const std::string command =
      python.string() + " " + (folder->path() / "compare.py").string() + " " + folder->path().string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Npy, BorrowsAlignedData) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const std::vector<float> values = {1.5F, -2.0F, 3.0F};
  const auto path = folder->path() / "x.npy";
  ASSERT_TRUE(write_npy(path, Tensor::from<float>(TensorType{DType::kF32, {3}, {}}, values)));
  const auto tensor = read_npy(path);
  ASSERT_TRUE(tensor);
  EXPECT_THAT(tensor->data<float>(), testing::ElementsAreArray(values));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->bytes().data()) % 64, 0U) << "NumPy's alignment inside a map";
}

TEST(Npy, ReadsAllVersionsAndSpellings) {
  const std::string data(24, 'x');
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data)), "success");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data, 2)), "success");
  EXPECT_EQ(error_word(npy("{\"shape\":(2L,3L),'fortran_order':False,'descr':'<f4'}\n", data, 3)), "success");
  EXPECT_EQ(error_word(npy("{'descr': '<f8', 'fortran_order': True, 'shape': (3,)}", data)), "success");
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::string data(24, 'x');
  EXPECT_EQ(error_word(""), "data-format");
  EXPECT_EQ(error_word("PK\x03\x04 and so on"), "data-format");
  EXPECT_EQ(error_word("\x93NUMPY\x01"), "file-truncated");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", data)), "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", data)), "data-dtype");
  EXPECT_EQ(error_word(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", data)), "data-dtype");
  EXPECT_EQ(error_word(npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", data)), "data-dtype");
  EXPECT_EQ(error_word(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", data)), "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", data)), "file-truncated");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", data)), "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }", data)), "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", data)),
            "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999999999999), }", data)),
            "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, }", data)), "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", data)),
            "data-format");
  EXPECT_EQ(error_word(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", data)), "data-format");
  EXPECT_EQ(error_word(npy("", data)), "data-format");
  std::string cut = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data);
  for (std::size_t size = 6; size < cut.size(); ++size) EXPECT_EQ(error_word(cut.substr(0, size)), "file-truncated");
  cut[6] = 4;
  EXPECT_EQ(error_word(cut), "data-format");
}

TEST(Npy, ReadsDeflatedMembersAndRefusesForeignOnes) {
  const auto content = *to_npy(Tensor::from<float>(TensorType{DType::kF32, {2}, {}}, std::vector<float>{1, 2}));
  const std::string zip = test::zip_bytes({{"a.npy", content, true}, {"b.npy", content}});
  const auto tensors = read_npz(as_bytes(zip), nullptr, "made.npz");
  ASSERT_TRUE(tensors) << tensors.error().summary();
  for (const auto& member : *tensors) EXPECT_THAT(member.tensor.data<float>(), testing::ElementsAre(1, 2));
  const std::string foreign = test::zip_bytes({{"a.npy", content}, {"readme.txt", "x"}});
  EXPECT_EQ(read_npz(as_bytes(foreign), nullptr, "made.npz").error().code, Code::kDataFormat);
  EXPECT_EQ(read_npz(as_bytes("x"), nullptr, "made.npz").error().code, Code::kNotAZip);
}

TEST(Npy, RefusesNamesAndTypesThatCannotBeWritten) {
  const Tensor scalar(TensorType{DType::kF32, {}, {}});
  EXPECT_EQ(to_npz(std::vector<NamedTensor>{{"a", scalar}, {"a", scalar}}).error().code, Code::kDataFormat);
  EXPECT_EQ(to_npz(std::vector<NamedTensor>{{"", scalar}}).error().code, Code::kDataFormat);
  EXPECT_EQ(to_npz(std::vector<NamedTensor>{{"../a", scalar}}).error().code, Code::kZipUnsafeEntry);
  EXPECT_EQ(to_npy(Tensor(TensorType{DType::kBF16, {2}, {}})).error().code, Code::kDataDtype);
}

TEST(Npy, SurvivesChangedBytes) {
  const auto archive = *to_npz(std::vector<NamedTensor>{{"x", Tensor(TensorType{DType::kI16, {3, 4}, {}})}});
  const auto alone = *to_npy(Tensor(TensorType{DType::kI16, {3, 4}, {}}));
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string changed = round % 2 == 0 ? archive : alone;
    changed[random() % changed.size()] = static_cast<char>(random() & 0xFF);
    if (round % 2 == 0) {
      (void)read_npz(as_bytes(changed), nullptr, "changed.npz");
    } else if (const auto tensor = read_npy(as_bytes(changed), nullptr)) {
      EXPECT_LE(tensor->bytes().size(), changed.size());
    }
  }
}

}  // namespace
}  // namespace htpipe
