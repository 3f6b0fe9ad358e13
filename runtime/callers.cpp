#include "runtime/callers.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "runtime/lower_case.hpp"

namespace millrace {
namespace {

constexpr std::array roles{Role::client, Role::read, Role::feedback, Role::admin};

bool same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() != secret.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  }
  return difference == 0;
}

const Role* role_of(const std::string& name) {
  const auto found = std::find_if(roles.begin(), roles.end(), [&](Role role) { return name == name_of(role); });
  return found == roles.end() ? nullptr : found;
}

}  // namespace

const char* name_of(Role role) {
  switch (role) {
    case Role::client: return "client";
    case Role::read: return "read";
    case Role::feedback: return "feedback";
    case Role::admin: return "admin";
  }
  return "unknown";
}

expected<std::vector<Caller>> read_callers(const std::string& file) {
  std::ifstream stream(file);
  std::vector<Caller> callers;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    if (fields.empty()) continue;
    const std::string where = "http.token_file " + file + ":" + std::to_string(number);
    Caller caller;
    if (fields.size() == 1) {
      caller = {fields[0], Role::admin, "admin"};
    } else if (const Role* role = role_of(fields[0]); role && fields.size() <= 3) {
      caller = {fields[1], *role, fields.size() == 3 ? fields[2] : fields[0]};
      if (*role == Role::client && fields.size() < 3) return fail(where + ": a client's token needs its name");
    } else {
      return fail(where +
                  ": expected ROLE TOKEN [NAME] with the role client, read, feedback or admin, or a token alone");
    }
    for (const Caller& other : callers) {
      if (other.token == caller.token) return fail(where + ": this token stands twice");
    }
    callers.push_back(std::move(caller));
  }
  if (callers.empty()) return fail("http.token_file " + file + " is missing or empty: it must hold a bearer token");
  return callers;
}

const Caller* find_caller(const std::vector<Caller>& callers, std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (lower_case(authorization.substr(0, scheme.size())) != scheme) return nullptr;
  const Caller* found = nullptr;
  for (const Caller& caller : callers) {  // all of them, whoever it is
    if (same_secret(authorization.substr(scheme.size()), caller.token)) found = &caller;
  }
  return found;
}

bool may(Role role, std::string_view method, std::string_view path) {
  const bool looks = method == "GET" || method == "HEAD";
  const bool talks = path.starts_with("/v1/") || path == "/chat/completions";
  switch (role) {
    case Role::client: return talks;
    case Role::read: return looks;
    case Role::feedback: return looks || talks || path.starts_with("/rl/");
    case Role::admin: return true;
  }
  return false;
}

double RateLimit::left_at(Time now) const {
  if (last_ == Time{}) return left_;
  return std::min(most_, left_ + rate_ * std::chrono::duration<double>(now - last_).count());
}

bool RateLimit::allow(Time now) {
  if (rate_ <= 0) return true;
  left_ = left_at(now);
  last_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

bool RateLimits::allow(const std::string& caller, RateLimit::Time now) {
  if (rate_ <= 0) return true;
  if (limits_.size() >= sweep_at_) {
    std::erase_if(limits_, [now](const auto& entry) { return entry.second.rested(now); });
    sweep_at_ = std::max<std::size_t>(1024, 2 * limits_.size());
  }
  return limits_.try_emplace(caller, rate_).first->second.allow(now);
}

}  // namespace millrace
