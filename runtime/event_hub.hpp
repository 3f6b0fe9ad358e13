#pragma once
// What happens in the service, for everyone who watches: a server-sent event stream each. Thread-safe.
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/http_stream.hpp"

namespace millrace {

class EventHub {
 public:
  static constexpr std::size_t kept = 600;  // events that a new listener is told of first

  void publish(const std::string& event, const nlohmann::json& data);
  // A stream of what was and what will be. It ends with end(), or when the listener is gone.
  std::shared_ptr<HttpStream> listen();
  void end();  // the service stops: all streams are complete

 private:
  std::mutex mutex_;
  std::deque<std::string> past_;
  std::vector<std::weak_ptr<HttpStream>> listeners_;
};

}  // namespace millrace
