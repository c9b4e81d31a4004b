// The prefill process as decode sees it: started, killed, reaped.
#pragma once

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <b10/steady_clock.hpp>

extern "C" char** environ;

namespace demo {

/// This program again, in a clean process, as prefill. Ends with this object: the channel closes,
/// and what does not go within two seconds is killed.
template <class Plane>
class BasicPeerProcess {
 public:
  explicit BasicPeerProcess(std::vector<std::string> arguments) : plane_(-1) {
    int fds[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
      throw std::runtime_error("socketpair failed");
    plane_ = Plane(fds[0]);
    Plane const theirs(fds[1]);
    arguments.insert(arguments.end(), {"--prefill", std::to_string(fds[1])});
    std::vector<char*> argv;
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], fds[1]);  // this one it keeps
    int const error = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("the prefill process does not start");
  }
  BasicPeerProcess(BasicPeerProcess const&) = delete;
  BasicPeerProcess& operator=(BasicPeerProcess const&) = delete;
  ~BasicPeerProcess() {
    plane_ = Plane(-1);
    auto const until = b10::steady_now() + b10::seconds(2);
    while (!gone()) {
      if (b10::steady_now() > until) kill();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  [[nodiscard]] Plane& plane() { return plane_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }

 private:
  [[nodiscard]] bool gone() const { return waitpid(pid_, nullptr, WNOHANG) != 0; }

  Plane plane_;
  pid_t pid_ = -1;
};

}  // namespace demo
