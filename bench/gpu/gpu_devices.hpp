// Which GPUs there are, without touching CUDA in a process that is going to fork.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include <cuda_runtime_api.h>

namespace b10::bench {

struct Devices {
  int count = 0;
  std::string text{};  ///< driver, runtime and each GPU; without any, the reason
};

namespace detail {

inline std::string describe_devices(int count) {
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  auto const version = [](int v) {
    return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
  };
  std::string text = "CUDA driver " + version(driver) + ", runtime " + version(runtime);
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp p{};
    char bus[32] = {};
    if (cudaGetDeviceProperties(&p, d) != cudaSuccess) continue;
    (void)cudaDeviceGetPCIBusId(bus, sizeof bus, d);
    text += "; GPU " + std::to_string(d) + " " + p.name + " (" +
            std::to_string(p.totalGlobalMem >> 30) + " GiB, " + bus + ")";
  }
  return text;
}

inline void tell_devices(int fd) {
  int count = 0;
  auto const error = cudaGetDeviceCount(&count);
  std::string text = error != cudaSuccess ? std::string(cudaGetErrorString(error))
                     : count == 0         ? std::string("none is visible")
                                          : describe_devices(count);
  text.insert(0, std::to_string(error == cudaSuccess ? count : 0) + " ");
  (void)!write(fd, text.data(), text.size());
}

}  // namespace detail

/// Asks in a process of its own.
[[nodiscard]] inline Devices find_devices() {
  std::array<int, 2> fds{};
  if (pipe(fds.data()) != 0) return {0, "no pipe to ask through"};
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    close(fds[0]);
    detail::tell_devices(fds[1]);
    _exit(0);
  }
  close(fds[1]);
  std::string said;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = read(fds[0], part.data(), part.size())) > 0;)
    said.append(part.data(), static_cast<std::size_t>(n));
  close(fds[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || said.empty())
    return {0, "the process that asked CUDA died"};
  auto const space = said.find(' ');
  return {std::stoi(said.substr(0, space)), said.substr(space + 1)};
}

}  // namespace b10::bench
