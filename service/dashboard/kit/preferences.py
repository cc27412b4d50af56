"""What a reader chose about all pages: theme, times and shortcuts. Cookies keep the choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from service.dashboard.kit.links import FilterLink

COOKIE_SECONDS = 365 * 86_400
LONGEST_ADDRESS = 2_000
"""Characters of an address to lead back to. A page has the address once for each choice."""

_CHOICES: Mapping[str, Mapping[str, str]] = {
    "theme": {"auto": "Auto", "light": "Light", "dark": "Dark"},
    "times": {"utc": "UTC", "local": "Local"},
    "keys": {"on": "On", "off": "Off"},
}
"""The values of each preference with their names, the default first."""

_TITLES = {"theme": "Theme", "times": "Times", "keys": "Shortcuts"}
_SCRIPTED = {"times", "keys"}


@dataclass(frozen=True, slots=True)
class Preferences:
    """The choices of a reader. Each is one of the values of `_CHOICES`."""

    theme: str
    times: str
    keys: str

    @property
    def color_scheme(self) -> str:
        """The value of the HTML element `meta name="color-scheme"`."""
        return "light dark" if self.theme == "auto" else self.theme


@dataclass(frozen=True, slots=True)
class PreferenceMenu:
    """The links for one preference. `scripted` is True if only the script can do what they say."""

    title: str
    links: tuple[FilterLink, ...]
    scripted: bool


def cookie_name(preference: str) -> str:
    """The cookie of a preference."""
    return f"steward_{preference}"


def read_preferences(cookies: Mapping[str, str]) -> Preferences:
    """The choices in these cookies. Defaults stand in for what is missing or unknown."""
    found = {}
    for name, values in _CHOICES.items():
        value = cookies.get(cookie_name(name), "")
        found[name] = value if value in values else next(iter(values))
    return Preferences(**found)


def build_preference_menus(cookies: Mapping[str, str], address: str) -> tuple[PreferenceMenu, ...]:
    """The links of all preferences. Each leads back to `address`, a path with its query."""
    chosen = read_preferences(cookies)
    back = quote(address if len(address) <= LONGEST_ADDRESS else "/", safe="/")
    return tuple(
        PreferenceMenu(
            title=_TITLES[name],
            links=tuple(
                FilterLink(
                    words, f"/view?{name}={value}&back={back}", value == getattr(chosen, name)
                )
                for value, words in values.items()
            ),
            scripted=name in _SCRIPTED,
        )
        for name, values in _CHOICES.items()
    )


def find_changes(query: Mapping[str, str]) -> dict[str, str]:
    """The valid choices in the query of an address, by the name of their cookie."""
    return {
        cookie_name(name): query[name]
        for name, values in _CHOICES.items()
        if query.get(name) in values
    }


def local_address(address: str) -> str:
    """The address if it is a path of this service, else the first page. An address of another site
    would make a redirect that leads away."""
    is_local = address.startswith("/") and address[1:2] not in {"/", "\\"}
    return address if is_local and address.isprintable() else "/"
