# The target millrace::torch: LibTorch's CPU library as deploy/setup unpacked it from the PyPI wheel. The wheel's own
# find_package(Torch) insists on a CUDA toolkit; linking its two libraries does not.
set(MILLRACE_TORCH_DIR "${PROJECT_SOURCE_DIR}/third_party/libtorch/torch" CACHE PATH "Unpacked torch wheel")
if(NOT EXISTS "${MILLRACE_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No LibTorch in ${MILLRACE_TORCH_DIR}: run ./deploy/setup first.")
endif()

# libtorch_cpu.so needs libcudart and libcupti at run time even where no GPU is.
file(GLOB cuda_libraries "${PROJECT_SOURCE_DIR}/third_party/nvidia-cuda-*/nvidia/cu13/lib/*.so.*")
set(cuda_directories "")
foreach(library IN LISTS cuda_libraries)
  get_filename_component(directory "${library}" DIRECTORY)
  list(APPEND cuda_directories "${directory}")
endforeach()
list(REMOVE_DUPLICATES cuda_directories)

add_library(millrace_torch INTERFACE)
add_library(millrace::torch ALIAS millrace_torch)
target_include_directories(millrace_torch SYSTEM INTERFACE "${MILLRACE_TORCH_DIR}/include")
target_link_libraries(millrace_torch INTERFACE
  "${MILLRACE_TORCH_DIR}/lib/libtorch_cpu.so" "${MILLRACE_TORCH_DIR}/lib/libc10.so")
target_link_options(millrace_torch INTERFACE "-Wl,--allow-shlib-undefined" "-Wl,--disable-new-dtags")
set(CMAKE_BUILD_RPATH "${MILLRACE_TORCH_DIR}/lib" ${cuda_directories})
