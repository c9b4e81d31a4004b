# `cmake --install` merges the three include roots into <prefix>/include/b10; find_package(b10) works from there and
# from the build tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(b10_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/b10)
install(TARGETS b10 EXPORT b10Targets FILE_SET HEADERS)
install(EXPORT b10Targets NAMESPACE b10:: DESTINATION ${b10_package_dir})
export(EXPORT b10Targets NAMESPACE b10:: FILE ${PROJECT_BINARY_DIR}/b10Targets.cmake)
if(TARGET b10_ucx)
  # Its own set: the package is usable where UCX is not.
  install(TARGETS b10_ucx EXPORT b10UcxTargets)
  install(EXPORT b10UcxTargets NAMESPACE b10:: DESTINATION ${b10_package_dir})
  export(EXPORT b10UcxTargets NAMESPACE b10:: FILE ${PROJECT_BINARY_DIR}/b10UcxTargets.cmake)
endif()
if(TARGET b10_zmq)
  install(TARGETS b10_zmq EXPORT b10ZmqTargets)
  install(EXPORT b10ZmqTargets NAMESPACE b10:: DESTINATION ${b10_package_dir})
  export(EXPORT b10ZmqTargets NAMESPACE b10:: FILE ${PROJECT_BINARY_DIR}/b10ZmqTargets.cmake)
endif()
if(TARGET b10_cuda)
  # Its own set too: it is read only when asked for, because it needs the CUDA toolkit.
  install(TARGETS b10_cuda b10_cuda_header_only EXPORT b10CudaTargets)
  install(EXPORT b10CudaTargets NAMESPACE b10:: DESTINATION ${b10_package_dir})
  export(EXPORT b10CudaTargets NAMESPACE b10:: FILE ${PROJECT_BINARY_DIR}/b10CudaTargets.cmake)
else()
  set(b10_arch_independent ARCH_INDEPENDENT)  # headers only
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/b10-config.cmake.in
  ${PROJECT_BINARY_DIR}/b10-config.cmake INSTALL_DESTINATION ${b10_package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/b10-config-version.cmake
  COMPATIBILITY SameMinorVersion ${b10_arch_independent})
file(COPY ${PROJECT_SOURCE_DIR}/cmake/b10-ucx.cmake ${PROJECT_SOURCE_DIR}/cmake/b10-zmq.cmake
  DESTINATION ${PROJECT_BINARY_DIR})
install(FILES
  ${PROJECT_BINARY_DIR}/b10-config.cmake
  ${PROJECT_BINARY_DIR}/b10-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/b10-ucx.cmake
  ${PROJECT_SOURCE_DIR}/cmake/b10-zmq.cmake
  DESTINATION ${b10_package_dir})
