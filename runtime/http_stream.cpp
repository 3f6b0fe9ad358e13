#include "runtime/http_stream.hpp"

#include <utility>

namespace millrace {

void HttpStream::write(const std::string& piece) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.ended || waiting_.overflow || piece.empty()) return;
    if (waiting_.text.size() + piece.size() > max_unread) {
      waiting_.overflow = true;
      waiting_.text = {};
      idle_ = true;  // the server has to hear of it although it is still sending
    } else {
      waiting_.text += piece;
    }
  }
  rouse();
}

void HttpStream::end() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.ended = true;
  }
  rouse();
}

HttpStream::Waiting HttpStream::take() {
  const std::lock_guard lock(mutex_);
  Waiting taken = waiting_;
  waiting_.text.clear();
  idle_ = taken.text.empty() && !taken.ended && !taken.overflow;
  return taken;
}

void HttpStream::on_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void HttpStream::rouse() {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(idle_, false)) return;
    wake = wake_;
  }
  if (wake) wake();
}

std::string sse_message(const std::string& data, const std::string& event) {
  std::string message = event.empty() ? "" : "event: " + event + "\n";
  std::size_t begin = 0;
  while (true) {  // a line break inside would end the field
    const std::size_t end = data.find('\n', begin);
    message += "data: " + data.substr(begin, end - begin) + "\n";
    if (end == std::string::npos) return message + "\n";
    begin = end + 1;
  }
}

void HttpCaller::when_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

void HttpCaller::leave() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    callback = std::exchange(callback_, nullptr);
  }
  if (callback) callback();
}

}  // namespace millrace
