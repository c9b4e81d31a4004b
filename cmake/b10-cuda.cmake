# b10::cuda              b10::b10, the CUDA runtime (static) and the compiled kernels: engines built by g++ or clang++
# b10::cuda_header_only  the same without kernels: an engine's own .cu files compile them from b10/device/*.cuh
# Both are there when CUDA 13 or newer is, with its nvcc; -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON leaves them out.
#
# The kernels are compiled by a command of our own. CMake 3.25 knows no C++20 for nvcc 13, and a CUDA language would
# have to be enabled by the project that includes this one, in the right folder, on machines with a toolkit only. The
# command leaves an object file, so that the library is an ordinary one to install, export and link.
set(B10_CUDA_ARCHITECTURES "80-virtual;90-real" CACHE STRING
  "What the kernels are compiled for: a list of compute capabilities, each N, N-real or N-virtual")

set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(CUDAToolkit 13 QUIET)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL OFF)
if(NOT TARGET CUDA::cudart_static OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  message(STATUS "b10: no b10::cuda: it needs CUDA >= 13 with nvcc, on PATH or in /usr/local/cuda/bin")
  return()
endif()

set(b10_nvcc ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20)
if(CMAKE_CUDA_HOST_COMPILER)
  list(APPEND b10_nvcc -ccbin ${CMAKE_CUDA_HOST_COMPILER})
endif()
if(CMAKE_CUDA_COMPILER_LAUNCHER)
  list(PREPEND b10_nvcc ${CMAKE_CUDA_COMPILER_LAUNCHER})
elseif(PROJECT_IS_TOP_LEVEL)
  find_program(B10_CCACHE ccache)
  if(B10_CCACHE)
    list(PREPEND b10_nvcc ${B10_CCACHE})
  endif()
endif()
foreach(root IN LISTS b10_roots)
  list(APPEND b10_nvcc -I${root})
endforeach()
list(APPEND b10_nvcc -DB10_WITH_CUDA)

set(b10_gencode "")
foreach(architecture IN LISTS B10_CUDA_ARCHITECTURES)
  if(architecture MATCHES "^([0-9]+[af]?)-real$")
    set(code sm_${CMAKE_MATCH_1})
  elseif(architecture MATCHES "^([0-9]+[af]?)-virtual$")
    set(code compute_${CMAKE_MATCH_1})
  elseif(architecture MATCHES "^([0-9]+[af]?)$")
    set(code [compute_${CMAKE_MATCH_1},sm_${CMAKE_MATCH_1}])
  else()
    message(FATAL_ERROR
      "b10: B10_CUDA_ARCHITECTURES has '${architecture}': write N, N-real or N-virtual, as in 90-real")
  endif()
  list(APPEND b10_gencode -gencode arch=compute_${CMAKE_MATCH_1},code=${code})
endforeach()

# b10_nvcc_object(<object> <source> [option]...)  The object file is made by nvcc when a target of the same folder
# has it among its sources, and again when a header has changed.
function(b10_nvcc_object object source)
  cmake_path(GET source FILENAME name)
  add_custom_command(OUTPUT ${object}
    COMMAND ${b10_nvcc} ${ARGN} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "nvcc compiles ${name}" VERBATIM)
endfunction()

add_library(b10_cuda_header_only INTERFACE)
add_library(b10::cuda_header_only ALIAS b10_cuda_header_only)
set_target_properties(b10_cuda_header_only PROPERTIES EXPORT_NAME cuda_header_only)
target_link_libraries(b10_cuda_header_only INTERFACE b10 CUDA::cudart_static)
target_compile_definitions(b10_cuda_header_only INTERFACE B10_WITH_CUDA)

# Position independent, and all symbols hidden: two libraries of one process may each have their own version of it.
set(object ${CMAKE_CURRENT_BINARY_DIR}/b10_cuda/copy_spans.o)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/b10_cuda)
b10_nvcc_object(${object} ${PROJECT_SOURCE_DIR}/kernels/b10/device/copy_spans.cu
  -O3 ${b10_gencode} -Xcompiler=-fPIC,-fvisibility=hidden)
add_library(b10_cuda STATIC ${object})
add_library(b10::cuda ALIAS b10_cuda)
set_target_properties(b10_cuda PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME cuda)
target_link_libraries(b10_cuda INTERFACE b10_cuda_header_only)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT B10_INSTALL)
  set_target_properties(b10_cuda PROPERTIES EXCLUDE_FROM_ALL TRUE)  # compiled where it is linked
endif()

list(JOIN B10_CUDA_ARCHITECTURES " " architectures)
message(STATUS "b10: b10::cuda with CUDA ${CUDAToolkit_VERSION} (${CUDAToolkit_NVCC_EXECUTABLE}) for ${architectures}")
