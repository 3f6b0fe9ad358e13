#pragma once
// Writing files that are either there as a whole after a crash or not at all: write, flush, rename, flush the folder.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/expected.hpp"

namespace millrace {

// Tests put a function here that is called before every write, flush, rename and removal; it may end the process, or
// return an errno that the operation then fails with (0: go on).
using IoStep = int (*)(const char* operation, const std::string& path);
extern IoStep before_io;

struct FileSum {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

class DurableFile {
 public:
  static expected<DurableFile> create(const std::string& path);
  DurableFile(DurableFile&&) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  expected<void> write(std::span<const std::byte> bytes);
  expected<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  // Everything is on the disk on return. The sum is over what was written.
  expected<FileSum> finish();

 private:
  struct State;
  explicit DurableFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Names made or removed in the folder are on the disk on return.
expected<void> flush_folder(const std::string& folder);
// The new name is on the disk on return; an existing file of that name is replaced.
expected<void> rename_durably(const std::string& from, const std::string& to);
// Writes the file beside its place, then renames it.
expected<void> replace_file(const std::string& path, std::string_view text);
expected<void> remove_all(const std::string& path);

std::uint64_t xxh3_of(std::span<const std::byte> bytes);

}  // namespace millrace
