# The target millrace::caf: Debian's libcaf-dev ships neither a CMake package nor a pkg-config file.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
add_library(millrace_caf INTERFACE)
add_library(millrace::caf ALIAS millrace_caf)
target_include_directories(millrace_caf SYSTEM INTERFACE "${CAF_INCLUDE_DIR}")
target_link_libraries(millrace_caf INTERFACE "${CAF_CORE_LIBRARY}")
# Debian builds CAF without type-ID checks; without them an unregistered message type fails only at run time.
target_compile_definitions(millrace_caf INTERFACE CAF_ENABLE_TYPE_ID_CHECKS)
