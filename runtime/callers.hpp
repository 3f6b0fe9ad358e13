#pragma once
// Who may do what: the callers of the token file with their roles, and how often anybody may call.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/expected.hpp"

namespace millrace {

enum class Role {
  client,    // talk to the policy and send feedback: /v1; always as the client that its token names
  read,      // GET
  feedback,  // both, say for which client, and /rl: an application that serves many
  admin      // everything
};
const char* name_of(Role role);

struct Caller {
  std::string token;
  Role role = Role::admin;
  std::string name;  // in the audit log, and a client's name
};

// The token file: a line a caller, `ROLE TOKEN [NAME]` (a client's with its name), or a token alone, which is an
// admin's. Empty lines and what follows a # count for nothing. Errors: missing, no token, a role that is none, a token
// or name that stands twice.
expected<std::vector<Caller>> read_callers(const std::string& file);

// The caller whose token stands in `Authorization: Bearer TOKEN`; null: nobody's. Takes the same time for every wrong
// token of a length, so that none can be guessed byte by byte.
const Caller* find_caller(const std::vector<Caller>& callers, std::string_view authorization);

bool may(Role role, std::string_view method, std::string_view path);

// Allows `rate` calls a second, and bursts of as many (one at least) after a rest.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit RateLimit(double rate) : rate_(rate), most_(std::max(1.0, rate)), left_(most_) {}  // 0: no limit
  bool allow(Time now);
  bool rested(Time now) const { return left_at(now) >= most_; }  // it is as if new

 private:
  double left_at(Time now) const;
  double rate_;
  double most_;
  double left_;
  Time last_{};
};

// The same for each caller by itself.
class RateLimits {
 public:
  explicit RateLimits(double rate) : rate_(rate) {}
  bool allow(const std::string& caller, RateLimit::Time now);
  std::size_t remembered() const { return limits_.size(); }  // of callers

 private:
  double rate_;
  std::map<std::string, RateLimit> limits_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace millrace
