#include "deploy/millrace/memory.hpp"

#include <cstddef>
#include <cstdlib>
#include <initializer_list>

// A backward pass leaves what it frees as one large piece. By default jemalloc cuts nothing from a piece that is 64
// times too large, and gives pieces over 8 MiB back at once: each step took its gigabyte from the kernel anew, page by
// page, a tenth of its time. Now pieces are cut, and go back after a minute in which nobody wanted them. And memory
// comes in pages of 2 MiB where the kernel has them: weights are read from end to end, and a core remembers the places
// of so many pages only.
extern "C" {
extern const char* malloc_conf;  // jemalloc reads it; MALLOC_CONF in the environment is stronger
const char* malloc_conf = "lg_extent_max_active_fit:16,oversize_threshold:0,dirty_decay_ms:60000,thp:always";
// Where jemalloc is the allocator; null where a sanitizer is.
int mallctl(const char* name, void* old, std::size_t* old_size, void* value, std::size_t size) __attribute__((weak));
}

namespace millrace {

void tune_memory() {
  // ATen and oneDNN keep half a megabyte of compiled code for every shape of a matrix product, 1,024 shapes each. A
  // pass has few shapes, and each length of a pack has its own: most would never be used again.
  for (const char* cache : {"LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}) setenv(cache, "64", 0);

  // Up to jemalloc 5.3.0 the first arena is made before oversize_threshold is read.
  std::size_t never = std::size_t{1} << 60;
  if (mallctl != nullptr) mallctl("arena.0.oversize_threshold", nullptr, nullptr, &never, sizeof never);
}

}  // namespace millrace
