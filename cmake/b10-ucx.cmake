# Defines b10::ucx_libraries (UCX headers, libucp, libucs) when UCX 1.13 or newer is there.
# Read from the source tree and from the installed package.
#
# UCX is found by its files, not by its own package: the one of 1.13 fails when it is read twice in one scope, so
# reading it here would break a project that reads it too. Hints, first to last: an existing ucx::ucp, ucx_DIR or
# ucx_ROOT, CMAKE_PREFIX_PATH, pkg-config, the system.
function(b10_find_ucx)
  if(TARGET b10::ucx_libraries)
    return()
  endif()
  set(hints "")
  if(TARGET ucx::ucp)
    get_target_property(location ucx::ucp IMPORTED_LOCATION)
    if(location)
      cmake_path(GET location PARENT_PATH hints)
    endif()
  endif()
  if(ucx_DIR)
    list(APPEND hints "${ucx_DIR}/../..")
  endif()
  if(ucx_ROOT)
    list(APPEND hints "${ucx_ROOT}/lib")
  endif()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(B10_UCX_PC QUIET ucx)
  endif()
  set(include_hints "")
  foreach(hint IN LISTS hints)
    list(APPEND include_hints "${hint}/../include" "${hint}/../../include")
  endforeach()
  find_path(B10_UCX_INCLUDE_DIR ucp/api/ucp.h
    HINTS ${include_hints} PATHS ${B10_UCX_PC_INCLUDE_DIRS} ${B10_UCX_PC_INCLUDEDIR})
  find_library(B10_UCP_LIBRARY ucp
    HINTS ${hints} PATHS ${B10_UCX_PC_LIBRARY_DIRS} ${B10_UCX_PC_LIBDIR})
  find_library(B10_UCS_LIBRARY ucs
    HINTS ${hints} PATHS ${B10_UCX_PC_LIBRARY_DIRS} ${B10_UCX_PC_LIBDIR})
  mark_as_advanced(B10_UCX_INCLUDE_DIR B10_UCP_LIBRARY B10_UCS_LIBRARY)
  if(NOT B10_UCX_INCLUDE_DIR OR NOT B10_UCP_LIBRARY OR NOT B10_UCS_LIBRARY)
    return()
  endif()

  file(STRINGS "${B10_UCX_INCLUDE_DIR}/ucp/api/ucp_version.h" version
    REGEX "define UCP_API_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9;]+" "" version "${version}")
  list(JOIN version "." version)
  if(version VERSION_LESS 1.13)
    message(STATUS "b10: UCX ${version} in ${B10_UCX_INCLUDE_DIR} is older than 1.13: no b10::ucx")
    return()
  endif()

  # Global: b10::ucx names it, and may be linked from any directory of the project.
  add_library(b10::ucx_libraries INTERFACE IMPORTED GLOBAL)
  set_target_properties(b10::ucx_libraries PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${B10_UCX_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${B10_UCX_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${B10_UCP_LIBRARY};${B10_UCS_LIBRARY}")
  set(b10_UCX_VERSION "${version}" PARENT_SCOPE)
endfunction()
