// Runs a fuzz target over files instead of made-up inputs, for compilers without libFuzzer and for ctest.
// Every argument is a file or a folder of files (libFuzzer's corpus layout); the exit code is 0 unless a run crashes.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);

int main(int count, char** arguments) {
  std::set<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    if (arguments[i][0] == '-') continue;  // an option of libFuzzer
    if (!std::filesystem::is_directory(arguments[i])) {
      files.insert(arguments[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
      if (entry.is_regular_file()) files.insert(entry.path());
    }
  }
  if (files.empty()) {
    std::fputs("give files or folders to run\n", stderr);
    return 2;
  }
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 2;
    }
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
  std::fprintf(stderr, "ran %zu files\n", files.size());
  return 0;
}
