# configurations: every valid combination of policies over Loopback, chosen ones over UCX and for KV on a GPU. Most of
# the time goes into compiling, so the parts are built only where they are asked for: all by `make report`, Loopback for
# the tests, there without optimisation.
function(b10_configurations name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UCX;GPU" "" "OPTIONS")
  file(GLOB loopback CONFIGURE_DEPENDS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/loopback_*.cpp)
  add_executable(${name} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/configurations.cpp ${loopback})
  target_link_libraries(${name} PRIVATE b10::b10 b10_program_options)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  if(arg_UCX)
    target_sources(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ucx.cpp)
    target_link_libraries(${name} PRIVATE b10::ucx)
    target_compile_definitions(${name} PRIVATE B10_CONFIGURATIONS_UCX)
  endif()
  if(arg_GPU)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}_device_pool.o)
    b10_nvcc_object(${object} ${PROJECT_SOURCE_DIR}/bench/gpu/device_pool.cu
      -O3 ${b10_gencode} -Xcompiler=${b10_nvcc_warnings})
    target_sources(${name} PRIVATE ${object} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/gpu.cpp
      ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/gpu_pools.cpp)
    target_link_libraries(${name} PRIVATE b10::cuda)
    target_compile_definitions(${name} PRIVATE B10_CONFIGURATIONS_GPU)
  endif()
endfunction()
