#pragma once
// An exception is a bug: the actor that meets one dies of it, and the log says what it was. CAF's own handler would
// print on stdout, which belongs to `--json`.
#include <exception>
#include <string>

#include <caf/error.hpp>
#include <caf/sec.hpp>

#include "runtime/log.hpp"

namespace millrace {

template <class Self>
void die_of_exceptions(Self self, const char* name) {
  self->set_exception_handler([name](std::exception_ptr& caught) -> caf::error {
    std::string what = "an exception of unknown type";
    try {
      std::rethrow_exception(caught);
    } catch (const std::exception& exception) {
      what = exception.what();
    } catch (...) {
    }
    log_error(name, "died: " + what);
    return caf::make_error(caf::sec::runtime_error, std::string(name) + ": " + what);
  });
}

}  // namespace millrace
