// SPDX-License-Identifier: Apache-2.0
/*!
 * \file helper.h
 * \brief A thread that joins the launches of callers.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_HELPER_H_
#define TVM_IOS_RUNTIME_LAUNCH_HELPER_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/launch/claims.h"

namespace tvm_ios {

class Helper;

/*! \brief A launch that helpers can join. */
struct Launch {
  /*! \brief The place of a helper. */
  struct Seat {
    Launch* launch;
    int32_t column;
    Helper* helper;
  };

  Claims claims;
  std::atomic<const ClaimProgram*> program{nullptr};
  std::vector<Seat> seats;
  /*! \brief Helpers that were invited and have not left; the launch is not used again before. */
  std::atomic<int32_t> guests{0};
  int caller_core{-1};
  /*! \brief Whether it usually takes less time than a thread that lost its core is away. */
  bool is_short{false};
};

class Helper {
 public:
  /*! \param crowded Whether callers need all cores, so that it does not look for work. */
  explicit Helper(const std::atomic<bool>* crowded);
  /*! \brief End the thread; nobody may invite it any more. */
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /*! \brief Invite it to a launch; return whether it is free. */
  bool Invite(Launch::Seat* seat, int64_t now);

  /*!
   * \brief Withdraw an invitation unless it was accepted; return whether it was not.
   * \param begin, end When the launch did. A helper that was looking for work and did not see the
   *  invitation meanwhile has lost its core.
   */
  bool Withdraw(Launch::Seat* seat, int64_t begin, int64_t end);

 private:
  void Loop();
  /*! \brief Look for an invitation for some time, then sleep until there is one. */
  void WaitForInvitation();
  void Join(Launch::Seat* seat, int32_t thread);
  /*! \brief Leave it out for some time, longer each time. */
  void Rest(int64_t now);

  static Launch::Seat busy_;  // what invitation_ points to while it is in a launch

  const std::atomic<bool>* const crowded_;
  alignas(128) std::atomic<Launch::Seat*> invitation_{nullptr};
  std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> woken_{false};  // for the present invitation
  std::atomic<bool> ends_{false};
  std::atomic<int64_t> rests_until_{0};
  std::atomic<int64_t> rest_{0};
  std::thread thread_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_HELPER_H_
