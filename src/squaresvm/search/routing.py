"""Metadata routing of searches: groups arrive where the splitter asks for them."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

__all__ = ["RoutedGroups"]


class RoutedGroups(BaseEstimator):
    """A search over the folds of `cv` that asks for groups where `cv` does, as GroupKFold does."""

    cv: Any

    def get_metadata_routing(self) -> Any:
        """Return which metadata are asked for; what `set_fit_request` says of groups has the last word."""
        request = super().get_metadata_routing()
        if request.fit.requests.get("groups") is None and _asks_for_groups(self.cv):
            request.fit.add_request(param="groups", alias=True)
        return request


def _asks_for_groups(cv: Any) -> bool:
    if not hasattr(cv, "get_metadata_routing"):
        return False
    return cv.get_metadata_routing().split.requests.get("groups") is True
