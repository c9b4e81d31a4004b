# How B10's own programs (tests, benchmarks, examples) are compiled. Nothing here reaches a user of the library.

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(B10_CCACHE ccache)
  if(B10_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${B10_CCACHE})
  endif()
endif()
set(CMAKE_CXX_EXTENSIONS OFF)

set(b10_warnings -Wall -Wextra -Wconversion -Wshadow)
if(B10_WERROR)
  list(APPEND b10_warnings -Werror)
endif()

list(JOIN b10_warnings "," b10_nvcc_warnings)  # behind -Xcompiler=

add_library(b10_program_options INTERFACE)
target_compile_options(b10_program_options INTERFACE ${b10_warnings})
if(B10_SANITIZE)
  target_compile_options(b10_program_options INTERFACE
    -fsanitize=${B10_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(b10_program_options INTERFACE -fsanitize=${B10_SANITIZE})
endif()
