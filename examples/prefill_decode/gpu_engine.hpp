// Which copy engine gathers from and scatters to GPU memory.
#pragma once

#include <stdexcept>
#include <type_traits>

#include <b10/transceiver.hpp>

#include "options.hpp"

namespace demo {

/// Calls make(std::type_identity<Engine>{}) with the engine that was asked for.
template <class Make>
auto with_engine(Options const& o, Make&& make) {
  switch (o.engine.value_or(Engine::staged)) {
    case Engine::staged:
      return make(std::type_identity<b10::copy::Staged>{});
    case Engine::direct:
      return make(std::type_identity<b10::copy::Direct>{});
    case Engine::batch:
      return make(std::type_identity<b10::copy::CopyEngineBatch>{});
  }
  throw std::logic_error("no such engine");
}

}  // namespace demo
