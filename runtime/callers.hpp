#pragma once
// Who may do what: the callers of the token file with their roles, and how often anybody may call.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "config/expected.hpp"

namespace millrace {

// Each may also do what the ones before it may.
enum class Role {
  read,      // GET
  feedback,  // talk to the policy and send feedback: /v1, /rl
  admin      // everything
};
const char* name_of(Role role);

struct Caller {
  std::string token;
  Role role = Role::admin;
  std::string name;  // in the audit log
};

// The token file: a line a caller, `ROLE TOKEN [NAME]`, or a token alone, which is an admin's. Empty lines and what
// follows a # count for nothing. Errors: missing, no token, a role that is none, a token or name that stands twice.
expected<std::vector<Caller>> read_callers(const std::string& file);

// The caller whose token stands in `Authorization: Bearer TOKEN`; null: nobody's. Takes the same time for every wrong
// token of a length, so that none can be guessed byte by byte.
const Caller* find_caller(const std::vector<Caller>& callers, std::string_view authorization);

// The least role that may make this call.
Role role_needed(std::string_view method, std::string_view path);

// Allows `rate` calls a second, and bursts of as many after a quiet second.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit RateLimit(double rate) : rate_(rate), left_(rate) {}  // 0: no limit
  bool allow(Time now);

 private:
  double rate_;
  double left_;
  Time last_{};
};

}  // namespace millrace
