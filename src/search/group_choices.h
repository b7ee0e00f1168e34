// SPDX-License-Identifier: Apache-2.0
/*!
 * \file group_choices.h
 * \brief The groups that a stage can still get, depth by depth, as sets of group numbers.
 */
#ifndef TVM_IOS_SEARCH_GROUP_CHOICES_H_
#define TVM_IOS_SEARCH_GROUP_CHOICES_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace tvm_ios {

/*!
 * \brief The choices on the way through all sets of disjoint groups: at depth d, the groups that a
 * stage of d groups can get.
 *
 * Groups are added by increasing number. Which of them are disjoint is found out when it is needed.
 *
 * \tparam Set Holds the numbers of all groups.
 * \tparam Groups Has size(), and by number the operators of a group.
 */
template <typename Set, typename Groups>
class GroupChoices {
 public:
  /*! \param limits By group: the number of groups that a stage with it may have. */
  GroupChoices(const Groups& groups, const std::vector<size_t>& limits)
      : groups_(groups), limits_(limits), disjoint_(groups.size()), left_{Addable(0)} {}

  /*! \brief Return whether there are groups left at a depth. */
  bool Any(size_t depth) const { return !left_[depth].Empty(); }

  /*! \brief Remove the first group from those that are left at a depth, and return it. */
  size_t Take(size_t depth) {
    const size_t group = static_cast<size_t>(*left_[depth].begin());
    left_[depth].Reset(group);
    return group;
  }

  /*! \brief Find what a group that was taken leaves for the next depth; return if there is any. */
  bool Extend(size_t depth, size_t group) {
    if (left_.size() == depth + 1) {
      addable_.push_back(Addable(depth + 1));
      left_.push_back(left_[depth]);
    }
    Set& next = left_[depth + 1];
    next = left_[depth];
    next &= Disjoint(group);
    next &= addable_[depth];
    return !next.Empty();
  }

 private:
  Set Addable(size_t depth) const {
    Set addable(groups_.size());
    for (size_t i = 0; i < limits_.size(); ++i) {
      if (limits_[i] > depth) addable.Set(i);
    }
    return addable;
  }

  /*! \brief Return the groups of greater number that share no operator with this one. */
  const Set& Disjoint(size_t group) {
    std::optional<Set>& disjoint = disjoint_[group];
    if (!disjoint) {
      disjoint.emplace(groups_.size());
      for (size_t i = group + 1; i < groups_.size(); ++i) {
        if (groups_[i].IsDisjointFrom(groups_[group])) disjoint->Set(i);
      }
    }
    return *disjoint;
  }

  const Groups& groups_;
  const std::vector<size_t>& limits_;
  std::vector<std::optional<Set>> disjoint_;  // by group
  std::vector<Set> left_;                     // by depth
  std::vector<Set> addable_;                  // by depth, from 1
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_GROUP_CHOICES_H_
