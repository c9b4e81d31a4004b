# Defines b10::zmq_libraries (zmq.hpp of cppzmq, libzmq) when ZeroMQ 4.3 or newer is there with its C++ header.
# Read from the source tree and from the installed package. By files, like UCX: not every cppzmq brings a package.
function(b10_find_zmq)
  if(TARGET b10::zmq_libraries)
    return()
  endif()
  find_path(B10_CPPZMQ_INCLUDE_DIR zmq.hpp)
  find_path(B10_ZMQ_INCLUDE_DIR zmq.h)
  find_library(B10_ZMQ_LIBRARY zmq)
  mark_as_advanced(B10_CPPZMQ_INCLUDE_DIR B10_ZMQ_INCLUDE_DIR B10_ZMQ_LIBRARY)
  if(NOT B10_CPPZMQ_INCLUDE_DIR OR NOT B10_ZMQ_INCLUDE_DIR OR NOT B10_ZMQ_LIBRARY)
    return()
  endif()

  file(STRINGS "${B10_ZMQ_INCLUDE_DIR}/zmq.h" version REGEX "define ZMQ_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]+" "" version "${version}")
  list(JOIN version "." version)
  if(version VERSION_LESS 4.3)
    message(STATUS "b10: ZeroMQ ${version} in ${B10_ZMQ_INCLUDE_DIR} is older than 4.3: no b10::zmq")
    return()
  endif()

  add_library(b10::zmq_libraries INTERFACE IMPORTED GLOBAL)
  set_target_properties(b10::zmq_libraries PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${B10_CPPZMQ_INCLUDE_DIR};${B10_ZMQ_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${B10_CPPZMQ_INCLUDE_DIR};${B10_ZMQ_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${B10_ZMQ_LIBRARY}")
  set(b10_ZMQ_VERSION "${version}" PARENT_SCOPE)
endfunction()
