#pragma once
// Reads little-endian values and strings out of bytes nobody vouches for. The first thing that is wrong is kept, and
// from then on all reads give zeros and empty strings: the caller checks once after a group of reads.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "config/expected.hpp"

namespace millrace {

static_assert(std::endian::native == std::endian::little, "files are read in the machine's own byte order");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }
  const std::optional<Error>& error() const { return error_; }

  // The bytes from `position` to here.
  std::span<const std::byte> since(std::size_t position) const {
    return bytes_.subspan(position, position_ - position);
  }

  // `field` is what the error names.
  void fail(std::string_view field, std::string_view what) {
    if (!error_) error_ = Error{std::string(field) + ": " + std::string(what)};
  }

  std::span<const std::byte> take(std::uint64_t size, std::string_view field) {
    if (size > left()) {
      fail(field, "needs " + std::to_string(size) + " bytes, the file has " + std::to_string(left()) + " left");
    }
    if (error_) return {};
    return bytes_.subspan(std::exchange(position_, position_ + size), size);
  }

  // Refuses a count of things that take at least `least` bytes each, if so many cannot follow.
  void check_count(std::uint64_t count, std::size_t least, std::string_view field) {
    if (count > left() / least) {
      fail(field, std::to_string(count) + " do not fit in the " + std::to_string(left()) + " bytes that are left");
    }
  }

  template <class T>
  T number(std::string_view field) {
    T value{};
    if (const auto bytes = take(sizeof value, field); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  // A string as GGUF has it: its length in 8 bytes, then its bytes. It lies inside the file, nothing is copied.
  std::string_view text(std::string_view field) {
    const auto bytes = take(number<std::uint64_t>(field), field);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::optional<Error> error_;
};

}  // namespace millrace
