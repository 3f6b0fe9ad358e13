#include "runtime/event_hub.hpp"

#include <algorithm>

namespace millrace {

void EventHub::publish(const std::string& event, const nlohmann::json& data) {
  const std::string message = sse_message(data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), event);
  const std::lock_guard lock(mutex_);
  past_.push_back(message);
  if (past_.size() > kept) past_.pop_front();
  std::erase_if(listeners_, [&](const std::weak_ptr<HttpStream>& listener) {
    const auto stream = listener.lock();
    if (stream) stream->write(message);
    return !stream;
  });
}

std::shared_ptr<HttpStream> EventHub::listen() {
  auto stream = std::make_shared<HttpStream>();
  const std::lock_guard lock(mutex_);
  stream->write(": millrace\n\n");  // the head goes out at once
  for (const std::string& message : past_) stream->write(message);
  std::erase_if(listeners_, [](const std::weak_ptr<HttpStream>& listener) { return listener.expired(); });
  listeners_.push_back(stream);
  return stream;
}

void EventHub::end() {
  const std::lock_guard lock(mutex_);
  for (const auto& listener : listeners_) {
    if (const auto stream = listener.lock()) stream->end();
  }
  listeners_.clear();
}

}  // namespace millrace
