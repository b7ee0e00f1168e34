// SPDX-License-Identifier: Apache-2.0
/*!
 * \file watchdog.h
 * \brief A watchdog that ends the process when its work crashes or takes too long.
 */
#ifndef TVM_IOS_RUNTIME_WATCHDOG_H_
#define TVM_IOS_RUNTIME_WATCHDOG_H_

#include <signal.h>

#include <array>

namespace tvm_ios {

/*!
 * \brief A watchdog: while it exists, a crash of any thread or the time limit ends the process with
 * status 0.
 *
 * It is for the process of one session of TVM's RPC server. The client finds the connection reset.
 * The server accepts the next client; it would stop serving if the process ended with another
 * status.
 */
class Watchdog {
 public:
  /*! \param seconds The time limit, more than 0. */
  explicit Watchdog(double seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static constexpr std::array<int, 6> kSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};

  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_WATCHDOG_H_
