#pragma once
// A whole file mapped into memory for reading: pages come from the disk when they are touched.
// It must not be cut short while it is mapped.
#include <cstddef>
#include <span>
#include <string>

#include "config/expected.hpp"

namespace millrace {

class MappedFile {
 public:
  // Errors: cannot be opened, empty, not a regular file.
  static expected<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  // Takes a part's pages out of this process's memory. They come back when they are read again.
  void forget(std::span<const std::byte> part) const;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(start_), size_}; }

 private:
  MappedFile(void* start, std::size_t size) : start_(start), size_(size) {}
  void* start_;
  std::size_t size_;
};

}  // namespace millrace
