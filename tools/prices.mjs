#!/usr/bin/env node
// prices.mjs - makes share/prices.json of the prices in npm's @pydantic/genai-prices.
//
//     npm install --prefix /tmp/prices @pydantic/genai-prices
//     tools/prices.mjs /tmp/prices/node_modules/@pydantic/genai-prices 2026-11-20 > share/prices.json
//
// The output has the format of LiteLLM's model_prices_and_context_window.json, as far as Weir reads
// it: prices of tokens in dollars. Models of some providers, by their id and by the other names that
// mean exactly them. Where a price depends on the date or the hour, it is that of noon (UTC) of the
// day that is named.
import {readFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const PROVIDERS = ['openai', 'anthropic', 'google', 'mistral', 'deepseek', 'x-ai'];
const FIELDS = {
    input_mtok: 'input_cost_per_token',
    output_mtok: 'output_cost_per_token',
    cache_read_mtok: 'cache_read_input_token_cost',
    cache_write_mtok: 'cache_creation_input_token_cost',
};

const [folder, day] = process.argv.slice(2);
if (!folder || !/^\d{4}-\d\d-\d\d$/.test(day ?? '')) {
    console.error('usage: tools/prices.mjs FOLDER_OF_THE_PACKAGE YYYY-MM-DD');
    process.exit(2);
}
const about = JSON.parse(readFileSync(join(folder, 'package.json')));
const {calcPrice, findProvider} = await import(pathToFileURL(resolve(folder, about.module)));

// A million tokens cost so much; a token costs that number with its point six places further left.
const perToken = price => Number(`${price}e-6`);

const namesOf = match => 'equals' in match ? [match.equals] : 'or' in match ? match.or.flatMap(namesOf) : [];

function entryOf(prices, provider) {
    const entry = {litellm_provider: provider};
    for (const [from, to] of Object.entries(FIELDS)) {
        const price = prices[from];
        if (typeof price === 'number') {
            entry[to] = perToken(price);
        } else if (price) {
            entry[to] = perToken(price.base);
            const [tier] = price.tiers;
            entry[`${to}_above_${Math.round(tier.start / 1000)}k_tokens`] = perToken(tier.price);
        }
    }
    return entry;
}

const models = {};
for (const id of PROVIDERS) {
    for (const model of findProvider({providerId: id}).models) {
        const found = calcPrice({input_tokens: 1}, model.id, {providerId: id, timestamp: new Date(`${day}T12:00:00Z`)});
        if (found?.model.id !== model.id || !(found.model_price.input_mtok ?? found.model_price.output_mtok)) {
            continue; // not paid by the token
        }
        for (const name of new Set([model.id, ...namesOf(model.match)])) {
            models[name] ??= entryOf(found.model_price, id);
        }
    }
}
const source = {package: about.name, version: about.version, date: day, repository: about.repository.url};
const sorted = Object.fromEntries(Object.keys(models).sort().map(name => [name, models[name]]));
const lines = Object.entries({_source: source, ...sorted}).map(([name, entry]) => `  ${JSON.stringify(name)}: ${JSON.stringify(entry)}`);
process.stdout.write(`{\n${lines.join(',\n')}\n}\n`);
