#pragma once
// The file under the memory of live traffic, and the unguessable names of what is in it.
#include <string>

#include "config/expected.hpp"
#include "runtime/sqlite.hpp"

namespace millrace {

// Opens or creates directory/live.sqlite: WAL, every commit on disk before it returns. The ledger's lock on the
// directory keeps a second service away. Errors: not writable, damaged, a newer format.
expected<Database> open_live_file(const std::string& directory);

std::string random_name(const std::string& prefix);  // and 128 random bits as hex digits

}  // namespace millrace
