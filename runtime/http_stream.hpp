#pragma once
// An answer that is sent while it is being made (HttpStream), and the news that nobody waits for one any more
// (HttpCaller). Both are shared between a handler and the server's thread and may be used from any thread.
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace millrace {

// The body of a response, piece by piece: the handler replies with a response that holds the stream, and writes to it
// before or after. What the reader has not taken yet is bounded: who falls too far behind is cut off.
class HttpStream {
 public:
  static constexpr std::size_t max_unread = 4 << 20;  // bytes

  void write(const std::string& piece);  // ignored after end()
  void end();                            // the body is complete; a handler that fails ends it, too

  // The server's side.
  struct Waiting {
    std::string text;
    bool ended = false;
    bool overflow = false;  // the reader is too slow: the connection has to go
  };
  // All that waits. When there is nothing, `wake` is called once as soon as there is.
  Waiting take();
  void on_wake(std::function<void()> wake);

 private:
  void rouse();

  std::mutex mutex_;
  Waiting waiting_;
  bool idle_ = false;  // the server has taken everything and waits
  std::function<void()> wake_;
};

// One event stream message (text/event-stream): "data: ...", ended by an empty line. `event` may be empty.
std::string sse_message(const std::string& data, const std::string& event = "");

// Who sent a request.
class HttpCaller {
 public:
  // Calls back once when the caller has hung up before its answer was complete; at once if it already has.
  void when_gone(std::function<void()> callback);
  void leave();  // the server's side

 private:
  std::mutex mutex_;
  bool gone_ = false;
  std::function<void()> callback_;
};

}  // namespace millrace
