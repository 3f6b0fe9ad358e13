// The operator page and the stream of events it listens to. Its files lie in dashboards/page/ and are part of the
// program.
#include <array>
#include <string_view>

#include "actors/gateway/gateway.hpp"

// NAME_begin .. NAME_end are the bytes of a file, put into the program by the assembler.
#define MILLRACE_EMBED(name, file)                                                                            \
  __asm__(".section .rodata\n.global " #name "_begin\n" #name "_begin:\n.incbin \"" file "\"\n.global " #name \
          "_end\n" #name "_end:\n.byte 0\n.previous\n");                                                      \
  extern "C" const char name##_begin[];                                                                       \
  extern "C" const char name##_end[];

MILLRACE_EMBED(page_index, MILLRACE_PAGE "/index.html")
MILLRACE_EMBED(page_style, MILLRACE_PAGE "/style.css")
MILLRACE_EMBED(page_icon, MILLRACE_PAGE "/icon.svg")
MILLRACE_EMBED(page_page, MILLRACE_PAGE "/page.js")
MILLRACE_EMBED(page_api, MILLRACE_PAGE "/api.js")
MILLRACE_EMBED(page_charts, MILLRACE_PAGE "/charts.js")
MILLRACE_EMBED(page_trajectories, MILLRACE_PAGE "/trajectories.js")
MILLRACE_EMBED(page_shift, MILLRACE_PAGE "/shift.js")
MILLRACE_EMBED(page_chat, MILLRACE_PAGE "/chat.js")
MILLRACE_EMBED(page_chart, MILLRACE_CHART_JS)

namespace millrace {

namespace {

struct File {
  std::string_view path;
  const char* type;
  std::string_view bytes;
};

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

const std::array<File, 10>& files() {
  constexpr const char* script = "text/javascript; charset=utf-8";
  static const std::array<File, 10> all{{
      {"/", "text/html; charset=utf-8", between(page_index_begin, page_index_end)},
      {"/page/style.css", "text/css; charset=utf-8", between(page_style_begin, page_style_end)},
      {"/page/icon.svg", "image/svg+xml", between(page_icon_begin, page_icon_end)},
      {"/page/page.js", script, between(page_page_begin, page_page_end)},
      {"/page/api.js", script, between(page_api_begin, page_api_end)},
      {"/page/charts.js", script, between(page_charts_begin, page_charts_end)},
      {"/page/trajectories.js", script, between(page_trajectories_begin, page_trajectories_end)},
      {"/page/shift.js", script, between(page_shift_begin, page_shift_end)},
      {"/page/chat.js", script, between(page_chat_begin, page_chat_end)},
      {"/page/chart.js", script, between(page_chart_begin, page_chart_end)},
  }};
  return all;
}

}  // namespace

void get_page(GatewaySelf, const GatewaySetup&, const HttpExchange& exchange) {
  for (const File& file : files()) {
    if (file.path != exchange.request.path) continue;
    HttpResponse response{200, std::string(file.bytes), file.type, {}};
    response.headers = {{"cache-control", "no-cache"},
                        {"content-security-policy",
                         "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"},
                        {"x-content-type-options", "nosniff"},
                        {"referrer-policy", "no-referrer"}};
    return exchange.reply(std::move(response));
  }
  exchange.reply(http_error(404, "there is nothing at " + exchange.request.path, "not_found_error"));
}

void get_events(GatewaySelf, const GatewaySetup& setup, const HttpExchange& exchange) {
  HttpResponse response{200, "", "text/event-stream", {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}}};
  response.stream = setup.events->listen();
  exchange.reply(std::move(response));
}

}  // namespace millrace
