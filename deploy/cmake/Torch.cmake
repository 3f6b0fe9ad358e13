# The target millrace::torch: LibTorch as deploy/setup unpacked it from the PyPI wheel. The wheel's own
# find_package(Torch) insists on a CUDA toolkit; linking its libraries does not.
option(MILLRACE_CUDA "Can compute on GPUs: needs ./deploy/setup cuda" OFF)
if(MILLRACE_CUDA)
  set(python_packages "${PROJECT_SOURCE_DIR}/third_party/cuda")  # torch with all that it needs on a GPU
  set(default_torch "${python_packages}/torch")
else()
  set(python_packages "${PROJECT_SOURCE_DIR}/third_party/nvidia-cuda-*")
  set(default_torch "${PROJECT_SOURCE_DIR}/third_party/libtorch/torch")
endif()
set(MILLRACE_TORCH_DIR "${default_torch}" CACHE PATH "Unpacked torch wheel")
if(NOT EXISTS "${MILLRACE_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No LibTorch in ${MILLRACE_TORCH_DIR}: run ./deploy/setup first.")
endif()

# libtorch_cpu.so needs libcudart and libcupti at run time even where no GPU is.
file(GLOB cuda_libraries "${python_packages}/nvidia/*/lib/*.so.*")
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
# Without it at::parallel_for, which is a template, quietly runs on one thread. The wheel brings its own libgomp.
target_compile_options(millrace_torch INTERFACE -fopenmp)
target_link_libraries(millrace_torch INTERFACE "${MILLRACE_TORCH_DIR}/lib/libgomp.so.1")
target_link_options(millrace_torch INTERFACE "-Wl,--allow-shlib-undefined" "-Wl,--disable-new-dtags")
if(MILLRACE_CUDA)
  # Nothing of ours calls into them by name, they add themselves to LibTorch when they are loaded.
  target_link_libraries(millrace_torch INTERFACE -Wl,--no-as-needed
    "${MILLRACE_TORCH_DIR}/lib/libtorch_cuda.so" "${MILLRACE_TORCH_DIR}/lib/libc10_cuda.so" -Wl,--as-needed)
  file(GLOB MILLRACE_CUDA_INCLUDES "${python_packages}/nvidia/*/include")
endif()
set(CMAKE_BUILD_RPATH "${MILLRACE_TORCH_DIR}/lib" ${cuda_directories})
