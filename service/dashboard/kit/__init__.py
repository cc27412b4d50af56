"""Parts that several pages share: amounts, charts, links and rows."""
