#pragma once

namespace millrace {

// Sets how this process keeps memory that it will soon want again. To be called before any other thread runs.
void tune_memory();

}  // namespace millrace
