#pragma once
// How this project reports what can be expected to fail: as a value with a text that says what is wrong, where, and
// what would be right. Exceptions are for bugs.
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace millrace {

struct Error {
  std::string message;
};

template <class T>
using expected = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(std::string message) { return tl::unexpected<Error>(Error{std::move(message)}); }

}  // namespace millrace
